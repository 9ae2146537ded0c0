"""The doors: how programs outside reach the kernel. Each leads to the one call pipeline."""
