"""The Activity screen: calls that run and calls that ended."""
