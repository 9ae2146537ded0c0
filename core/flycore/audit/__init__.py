"""The audit log of one app root: an append-only, hash-chained log, and everything that reads it."""
