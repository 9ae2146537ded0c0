"""The protocol between the kernel and its clients: messages, the table of methods, and generated proxies."""
