"""Sidecars that move mouse and keyboard for `computer.native`. The entry names them as delegates."""
