"""Reads and writes of an app root by commands, while no kernel runs on it.

A function that writes takes a `HeldRoot`, which only the holder of the root's lock has; it appends its line
to the audit log and returns an outcome for the person. A function that takes only `RootPaths` reads. Edits of
the registry and the policy file are the exception: a person may edit those files at any time.
"""
