"""Says of a coding agent's own command or read whether it only reads within the project folder.

Nothing here starts a program or opens a file. What depends on files, such as where a link leads, is handed
over as values.
"""
