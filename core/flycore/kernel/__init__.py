"""The kernel: its composition, its state, and everything that servers and consoles call."""
