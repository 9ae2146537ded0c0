"""Starts a child process, reads it within bounds, and ends it with its whole process tree."""
