"""What there is: every tool with who offers it, and whether it is well, and why not."""
