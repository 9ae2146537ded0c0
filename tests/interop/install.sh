#!/usr/bin/env bash
# Installs what the interop tests drive, by npm, beside this file: a Node 22 of its own, the MCP Inspector, the
# MCP conformance suite, wscat, MCP servers and the language servers of editors, in the versions package.json
# names, and MCP servers in Python.
# Does nothing where they are there already.
set -euo pipefail
cd "$(dirname "$0")"

done_for=node_modules/.installed
if cmp --silent package.json "$done_for" 2>/dev/null; then
	exit 0
fi
# A registry that does not answer must not hold up a machine for hours.
timeout 900 npm install --no-progress --loglevel=error
node_modules/node/bin/node -e 'process.exit(process.versions.node.startsWith("22.") ? 0 : 1)'
python3 -m venv python
timeout 900 python/bin/pip install --quiet mcp-server-git==2026.10.19 mcp-server-time==2026.10.19 \
	mcp-server-fetch==2026.10.24
# Its last release needs the first generation of the SDK, the others the second: it has an environment of its own.
python3 -m venv python-sqlite
timeout 900 python-sqlite/bin/pip install --quiet mcp-server-sqlite==2025.4.25 'mcp<2'
cp package.json "$done_for"
