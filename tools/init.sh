#!/bin/sh
# Writes a registry for this machine: calls flytui init with the arguments, such as --target DIR or SIDECAR.
own="$(dirname "$0")/../.venv/bin/flytui"
[ -x "$own" ] || own=flytui
exec "$own" init "$@"
