"""The capabilities that the kernel describes itself, so that each is listed even where no sidecar offers it.

They are data: one JSON file for each family in `data/`, read at first use. Agents, people and the approval
card see the texts of these files. The shape of a record is that of `Capability`.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType

import msgspec

from flycore.model.agent_actions import AGENT_ACTIONS as AGENT_ACTIONS
from flycore.model.agent_actions import EDIT as EDIT
from flycore.model.agent_actions import FETCH as FETCH
from flycore.model.agent_actions import READ as READ
from flycore.model.agent_actions import SHELL as SHELL
from flycore.model.agent_actions import TOOL as TOOL
from flycore.model.catalog import Capability
from flycore.model.diagnostics import Position
from flycore.model.enums import Layer, Source
from flycore.model.sidecar import SidecarEntry

BUILTIN_PREFIXES = ("workspace.", "git.", "process.", "shell.", "agent.")
"""The beginnings of names that the kernel keeps for itself. A registry that claims such a name is faulty."""

BUNDLED_PROBED = frozenset(
    {
        "browser.cdp",
        "web.search",
        "media.local",
        "media.provider",
        "media.speech",
        "computer.native",
        "utility.local",
        "utility.files",
        "utility.code",
        "utility.tasks",
        "web.pages",
        "web.files",
        "mock.echo",
    }
)
"""Ids of the bundled sidecars, which are probed even where their entry names no probe."""

BUNDLED_TOOLS = frozenset(
    {
        "audio.speak",
        "audio.transcribe",
        "archive.create",
        "archive.extract",
        "browser.click",
        "browser.evaluate",
        "browser.navigate",
        "browser.open",
        "browser.screenshot",
        "browser.snapshot",
        "browser.type",
        "data.convert",
        "file.hash",
        "lsp.diagnostics",
        "lsp.symbols",
        "screen.screenshot",
        "task.background",
        "computer.window",
        "computer.mouse",
        "computer.keyboard",
        "vision.analyze",
        "vision.ocr",
        "web.search",
        "web.fetch",
        "web.extract",
        "web.request",
        "web.download",
    }
)
"""The known tools for which this version has a program. It is used in remedies only and decides nothing."""


class _Known(Mapping[str, Capability]):
    """The capabilities by name, sorted by name. The files are read at first use."""

    @cached_property
    def _by_name(self) -> dict[str, Capability]:
        data = Path(__file__).with_name("data")
        found = [
            capability
            for file in data.iterdir()
            if file.name.endswith(".json")
            for capability in read_family(file.read_bytes())
        ]
        return {capability.name: capability for capability in sorted(found, key=lambda item: item.name)}

    def __getitem__(self, name: str) -> Capability:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


def read_family(data: bytes) -> tuple[Capability, ...]:
    """Return the capabilities of one data file. Raises msgspec.ValidationError for a file of another
    shape."""
    rows = msgspec.json.decode(data, type=list[dict[str, object]])
    return tuple(
        msgspec.convert(
            {"layer": Layer.ATOMIC, "sidecar": None, **row, "family": family_of(str(row["name"]))}, Capability
        )
        for row in rows
    )


def family_of(name: str) -> str:
    """Return the part of a tool's name before the first dot; one object for the tools of a family."""
    return sys.intern(name.partition(".")[0])


def is_builtin_name(name: str) -> bool:
    """Return whether the name is kept for the kernel's own tools, so that no sidecar may offer it."""
    return name.startswith(BUILTIN_PREFIXES)


KNOWN: Mapping[str, Capability] = _Known()
"""Every known capability by name."""


# The actions that an agent performs with its own tools, and asks permission for through a hook before each.
# No program belongs to these capabilities. They go through policy, approval, quota and audit like any other;
# what an allowed action then does is up to the agent. They are not in the catalog, since nobody can call
# them.

AGENT_ITSELF = "the agent itself"
"""Stands in the place of a sidecar's id; no entry of a registry can have this id."""


def _data() -> bytes:
    return Path(__file__).with_name("own").joinpath("agent.json").read_bytes()


@cache
def agent_actions() -> Mapping[str, Capability]:
    """Return the agent's own actions by name."""
    return MappingProxyType({capability.name: capability for capability in read_family(_data())})


@cache
def agent_entry() -> SidecarEntry:
    """Return what stands in the place of a registry entry: it has no program and no permissions."""
    # The digest is over the definitions, so a permission that was given under other definitions ends.
    return SidecarEntry(
        id=AGENT_ITSELF,
        source=Source.USER,
        position=Position(file="flytui", line=1, column=1),
        digest=hashlib.sha256(_data()).hexdigest(),
    )
