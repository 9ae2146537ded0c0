"""Runs sidecars as child processes: bounded reads, the whole tree ended, answers read strictly."""
