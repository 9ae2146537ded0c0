"""The files of other systems: where they lie, what is wrong in them, and what of them can be carried over."""
