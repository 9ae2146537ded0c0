"""The kernel's own tools for the files of a project: reading, listing, searching, changing, and undo."""
