"""Who decides: the queue a person answers, grants, leases, trust, and who is calling."""
