"""Holds any program against the contract of a sidecar: the real runner, real processes, no sandbox."""
