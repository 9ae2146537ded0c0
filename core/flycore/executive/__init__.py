"""The call pipeline: one room a step, read in `pipeline.py` from top to bottom."""
