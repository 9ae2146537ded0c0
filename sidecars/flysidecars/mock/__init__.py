"""The sidecar of tests and first steps."""
