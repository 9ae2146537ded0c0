"""The kernel's own tools in the catalog: what stands for their registry entries, and their state.

No registry names them and no trust is asked for them: they came with flytui. Policy, approval, quota, sandbox
and audit are those of every tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache

import msgspec

from flycore.catalog.builtin import KNOWN
from flycore.catalog.snapshot import SidecarFacts, sidecar_stability
from flycore.model.catalog import CapabilityView
from flycore.model.diagnostics import Position
from flycore.model.enums import Layer, ProbeMode, Source
from flycore.model.json import JsonObject, digest
from flycore.model.sidecar import Limits, Permissions, Probe, SidecarEntry, ToolClaim

BUILTIN = "builtin"
"""The `source` of a tool that the kernel runs itself."""
GIT = "git"
FILES_FAMILY = "workspace"
RUNNING = frozenset(("process.run", "shell.run"))
"""The tools that run programs of the caller's choice."""
_PROJECT = "."
LONGEST_RUN_MS = 600_000
LONGEST_GIT_MS = 60_000
MOST_PRINTED = 8 * 1024 * 1024
"""Bytes that a program may write to stdout; of more than a page the agent gets beginning and end."""
_MEMORY = 4 * 1024 * 1024 * 1024
"""Memory of one process of a program that a call runs: builds and tests need more than a sidecar."""


@cache
def builtin_names() -> frozenset[str]:
    """Return the names of the tools that the kernel runs itself."""
    return frozenset(name for name, capability in KNOWN.items() if capability.layer is Layer.BUILTIN)


def builtin_id(tool: str) -> str:
    """Return what stands in place of the id of a registry entry. No entry can have it: it holds a blank."""
    return f"flytui {tool}"


@lru_cache(maxsize=64)
def builtin_entry(tool: str, *, network: bool = False) -> SidecarEntry:
    """Return what stands in place of the tool's registry entry. `network` counts for the tools that run
    programs, whose network the person's settings decide."""
    capability = KNOWN[tool]
    runs = tool in RUNNING
    permissions = Permissions(
        network=network and runs,
        read=(_PROJECT,) if capability.read_only or runs else (),
        write=() if capability.read_only else (_PROJECT,),
    )
    raw: JsonObject = {
        "builtin": tool,
        "permissions": {
            "network": permissions.network,
            "fs": {"read": list(permissions.read), "write": list(permissions.write)},
        },
    }
    return SidecarEntry(
        id=builtin_id(tool),
        source=Source.USER,
        position=Position(file="flytui", line=1, column=1),
        command=GIT if capability.family == GIT else "",
        timeout_ms=LONGEST_RUN_MS if runs else LONGEST_GIT_MS,
        max_output_bytes=MOST_PRINTED,
        probe=Probe(mode=ProbeMode.OFF),
        permissions=permissions,
        limits=Limits(memory_bytes=_MEMORY) if runs else Limits(),
        tools=(ToolClaim(name=tool),),
        raw=raw,
        # Over the definition as well: a permission that was given under another one ends.
        digest=digest([raw, msgspec.to_builtins(capability)]),
    )


def entries_for(network: Mapping[str, bool]) -> dict[str, SidecarEntry]:
    """Return what stands for the entries of all these tools, by tool. `network` are the person's settings."""
    return {name: builtin_entry(name, network=network.get(name, False)) for name in builtin_names()}


def builtin_view(facts: SidecarFacts, tool: str) -> CapabilityView:
    """Return the tool with its state."""
    decision, because = facts.decision(tool)
    return CapabilityView(
        capability=KNOWN[tool],
        sidecar=None,
        source=BUILTIN,
        stability=sidecar_stability(facts, tool),
        decision=decision,
        because=because,
    )
