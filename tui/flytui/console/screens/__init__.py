"""Screens of the console that more than one feature uses."""
