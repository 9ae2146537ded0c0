"""What commands do without a kernel: they check, explain and edit files that a person may edit at any time.

Nothing here writes to the state folder of a root, which only its kernel does.
"""
