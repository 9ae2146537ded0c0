"""MCP servers whose tools join the catalog: their sessions, over a child process or HTTP, and their calls.

The MCP SDK is imported inside functions only, so that a kernel without such an entry never loads it.
"""
