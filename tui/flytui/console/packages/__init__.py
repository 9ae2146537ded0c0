"""The screen Packages."""
