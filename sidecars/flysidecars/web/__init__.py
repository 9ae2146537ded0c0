"""What `web.search` does: asks search providers, loads pages, saves files; public addresses only."""
