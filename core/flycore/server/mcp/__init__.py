"""The MCP server: offers the catalog as tools of the Model Context Protocol."""
