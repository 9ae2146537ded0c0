"""The Grants screen: everything that stands, and taking it away."""
