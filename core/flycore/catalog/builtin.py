"""The capabilities the kernel describes itself, so that each is listed even where nothing offers it.

They are data: one JSON file for each family in `data/`, read once, when first asked for. What a file
says is what agents, people and the approval card see; its shape is that of `Capability`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from flycore.model.catalog import Capability
from flycore.model.diagnostics import Position
from flycore.model.enums import Layer, Source
from flycore.model.sidecar import SidecarEntry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flycore.model.catalog import Capability


BUILTIN_PREFIXES = ("workspace.", "git.", "process.", "shell.", "agent.")
"""Names the kernel keeps for itself: a registry that claims one is faulty."""

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
"""Known tools for which this version brings a program. Said in remedies, decides nothing."""


class _Known(Mapping[str, Capability]):
    """Name to capability, sorted by name; the files are read at first use."""

    @cached_property
    def _by_name(self) -> dict[str, Capability]:
        data = files("flycore.catalog").joinpath("data")
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
    """The capabilities of one data file. Raises msgspec.ValidationError for a file of another shape."""
    rows = msgspec.json.decode(data, type=list[dict[str, object]])
    return tuple(
        msgspec.convert(
            {"layer": Layer.ATOMIC, "sidecar": None, **row, "family": family_of(str(row["name"]))}, Capability
        )
        for row in rows
    )


def family_of(name: str) -> str:
    """The part of a tool's name before the first dot."""
    return name.partition(".")[0]


def is_builtin_name(name: str) -> bool:
    """Whether a sidecar may not offer a tool of that name, because the kernel's own tools have it."""
    return name.startswith(BUILTIN_PREFIXES)


KNOWN: Mapping[str, Capability] = _Known()
"""Every known capability by name."""


# What an agent does with tools of its own and asks leave for first, through a hook before each.
#
# These capabilities are the kernel's own and only decide: no program belongs to them. They go through
# policy, approval, quota and audit like any; what an allowed one then does is in the agent's hands. They
# are not in the catalog: nobody is offered them as tools.


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
