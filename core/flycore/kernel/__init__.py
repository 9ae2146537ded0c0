"""The composition root: opens everything, owns lifetimes, and has the one verb, call."""
