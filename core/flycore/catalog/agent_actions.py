"""What an agent does with tools of its own and asks leave for first, through a hook before each.

These capabilities are the kernel's own and only decide: no program belongs to them. They go through policy,
approval, quota and audit like any; what an allowed one then does is in the agent's hands. They are not in the
catalog: nobody is offered them as tools.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING

from flycore.catalog.known import read_family
from flycore.model.diagnostics import Position
from flycore.model.enums import Source
from flycore.model.sidecar import SidecarEntry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flycore.model.capability import Capability

AGENT_ITSELF = "the agent itself"
"""In the place of a sidecar; no entry of a registry can have this id."""
SHELL, EDIT, FETCH, TOOL = "agent.shell", "agent.edit", "agent.fetch", "agent.tool"
AGENT_ACTIONS = frozenset((SHELL, EDIT, FETCH, TOOL))
"""Their names."""


def _data() -> bytes:
    return files("flycore.catalog").joinpath("own", "agent.json").read_bytes()


@cache
def agent_actions() -> Mapping[str, Capability]:
    """Name to capability."""
    return MappingProxyType({capability.name: capability for capability in read_family(_data())})


@cache
def agent_entry() -> SidecarEntry:
    """In the place of a registry's entry: no program, no permissions. Its digest is over the definitions, so
    that what was granted under others does not hold."""
    return SidecarEntry(
        id=AGENT_ITSELF,
        source=Source.USER,
        position=Position(file="flytui", line=1, column=1),
        digest=hashlib.sha256(_data()).hexdigest(),
    )
