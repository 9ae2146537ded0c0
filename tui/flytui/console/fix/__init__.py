"""Fixes that a remedy offers: each is shown exactly, then done after a confirmation."""
