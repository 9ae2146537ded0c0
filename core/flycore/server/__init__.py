"""The servers through which other programs reach the kernel: Unix socket, TCP, HTTP and MCP.

Every call that arrives here runs through the same pipeline.
"""
