"""`task.background`: commands that run on after the answer, and what is left of them."""
