"""The Audit screen: the log, whether it is whole, and how much a person was asked."""
