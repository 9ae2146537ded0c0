"""Runs sidecars as child processes and calls MCP servers, within limits of time and output."""
