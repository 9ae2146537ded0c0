"""flycore.pipeline.targets."""
