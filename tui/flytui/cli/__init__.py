"""The command line: one small module a command, imported when it is asked for."""
