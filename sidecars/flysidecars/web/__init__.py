"""The sidecar `web.search`: search providers, pages and files, from public addresses only."""
