"""Seals of what cannot be held still: an address, or a program that fetches what it then runs."""

from __future__ import annotations

import os
import re

import msgspec

from flycore.model.enums import SealKind
from flycore.model.json import digest
from flycore.model.program import ResolvedProgram, Seal
from flycore.model.sidecar import SidecarEntry

_FETCHERS = re.compile(r"(npx|npm|pnpm|pnpx|yarn|bunx|uvx|uv|pipx|docker|podman|nix|nix-shell|nix-run)")
FETCHER_NOTE = "fetches and runs what its command line names: only that is sealed, not what it fetches"
ADDRESS_NOTE = "the address only: what answers there may change without anybody knowing"


def is_fetcher(command: str) -> bool:
    """Whether the program is known to fetch what it runs."""
    return _FETCHERS.fullmatch(os.path.basename(command)) is not None


def seal_address(entry: SidecarEntry) -> Seal:
    """An MCP server on HTTP."""
    return Seal(
        kind=SealKind.NAME, digest=digest([entry.url, entry.headers]), program=entry.url, note=ADDRESS_NOTE
    )


def seal_by_name(entry: SidecarEntry, program: ResolvedProgram, seal: Seal) -> Seal:
    """The seal of an MCP server's program, as what it is where the program fetches what it runs."""
    if not is_fetcher(entry.command) and not is_fetcher(program.path):
        return seal
    return msgspec.structs.replace(seal, kind=SealKind.NAME, note=FETCHER_NOTE)
