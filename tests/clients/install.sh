#!/usr/bin/env bash
# Installs the programs of agents that the client tests drive, by npm, beside this file, in the versions that
# package.json names, with a Node 22 to run them. Does nothing where they are there already.
set -euo pipefail
cd "$(dirname "$0")"

done_for=node_modules/.installed
if cmp --silent package.json "$done_for" 2>/dev/null; then
	exit 0
fi
# A registry that does not answer must not hold up a machine for hours.
timeout 900 npm install --no-progress --loglevel=error --fetch-timeout=60000 --fetch-retries=2
for program in claude codex copilot gemini qwen opencode; do
	[ -e "node_modules/.bin/$program" ] || { echo "npm installed no $program" >&2; exit 1; }
done
cp package.json "$done_for"
