"""Security primitives that exist once, shared by kernel, console and sidecars. Standard library only."""
