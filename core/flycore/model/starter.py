"""The starter registry as it is offered to a person: the entries for the bundled sidecars, what each found on
this machine, and the change that writes chosen ones."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.enums import Effective


class StarterTool(Value, frozen=True, kw_only=True):
    """One tool of an entry, as it works on this machine."""

    name: str
    state: Effective
    reason: str = ""
    """Why it is not available; empty where it is."""
    remedy: str = ""
    """What a person can do about it."""
    command: tuple[str, ...] = ()
    """The command that installs what is missing on this system, where one is known."""


class StarterEntry(Value, frozen=True, kw_only=True):
    """One entry of the starter registry."""

    id: str
    text: str
    """The entry with its comments, as it would be written."""
    tools: tuple[StarterTool, ...] = ()
    present: bool = False
    """Whether the registry has an entry of that id already, which is not changed."""

    @property
    def usable_tools(self) -> int:
        """How many of its tools work here."""
        return sum(tool.state.usable for tool in self.tools)


class StarterOffer(Value, frozen=True, kw_only=True):
    """All entries of the starter registry, and the file that they would be written to."""

    file: str
    """The registry of the project, relative to the app root."""
    exists: bool
    entries: tuple[StarterEntry, ...]


class StarterPlan(Value, frozen=True, kw_only=True):
    """The change that writes some entries."""

    file: str
    sidecars: tuple[str, ...] = ()
    """The entries that would be added. Those that the file has already are left out."""
    text: str = ""
    """The whole file, where there is none yet; else empty."""
    difference: tuple[str, ...] = ()
    """The change of an existing file, as lines of a unified diff."""
    digest: str = ""
    """Digest of the file before and after. What is written has to have it."""
    why_not: str = ""
    """Why nothing can be written; empty otherwise."""
