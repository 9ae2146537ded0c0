"""The Audit screen: the log, whether it is whole, and how much the person is asked."""
