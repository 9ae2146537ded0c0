"""Finds kits, skills, plugins and the MCP servers of other clients. Nothing that is found here is run."""
