"""The protocol between kernel and clients: messages, the table of methods, and proxies made from it."""
