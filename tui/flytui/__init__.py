"""The person's seat: the Textual console and the command line."""
