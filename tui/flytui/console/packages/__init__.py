"""The Packages screen: what is installed and staged, and what a person does with it."""
