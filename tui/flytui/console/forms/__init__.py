"""The test-call form: a tool's input schema as fields, what is in them as an input, and the call itself."""
