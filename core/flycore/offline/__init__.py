"""What a command reads and writes of an app root while no kernel runs on it.

Every write takes a `HeldRoot`, which only the holder of the root's lock has, appends its line to the audit
log, and returns an outcome for the person. What takes only `Places` reads; `files` also edits the registry,
which is the person's own file.
"""
