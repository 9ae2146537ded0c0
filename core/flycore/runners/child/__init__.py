"""Starts a child process, reads its output within bounds, and ends its whole process tree."""
