"""What happened: an append-only, hash-chained log of one app root, and everything that reads it."""
