"""MCP servers whose tools join the catalog: a session that stays, over stdio or HTTP, and its calls.

The SDK is imported inside functions only: a kernel without such an entry never loads it.
"""
