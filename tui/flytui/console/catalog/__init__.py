"""The Catalog screen: which tools there are, how they are, and why."""
