"""flycore.pipeline."""
