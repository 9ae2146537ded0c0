"""The call pipeline: takes one call from its arrival through approval and execution to its result."""
