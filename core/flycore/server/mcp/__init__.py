"""The MCP door: the catalog as tools of the Model Context Protocol, each call through the same pipeline."""
