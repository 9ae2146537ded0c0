"""Programs that act for `computer.native`: each is a sidecar of its own, named as a delegate."""
