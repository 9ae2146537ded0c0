"""The sidecar `mock.echo`, for tests and first steps."""
