"""What is described somewhere and never run by being read: kits, skills, plugins, others' servers."""

from __future__ import annotations

from enum import StrEnum

from flycore.model.base import Value
from flycore.model.diagnostics import Diagnostic
from flycore.model.json import JsonObject


class SourceKind(StrEnum):
    """What is described."""

    KIT = "kit"
    SKILL = "skill"
    PLUGIN = "plugin"
    MCP_SERVER = "mcp-server"


class Origin(StrEnum):
    """Whose file it is."""

    BUILTIN = "builtin"
    PROJECT = "project"
    USER = "user"


class DescribedState(StrEnum):
    """What flytui makes of it."""

    LISTED = "listed"
    SHADOWED = "shadowed"
    """Another of the same kind and id wins; the reason names it."""
    REGISTERED = "registered"
    """A server that the registry declares already."""
    ITSELF = "itself"
    """flytui's own entry in another client's file: never taken as an upstream."""
    FAULTY = "faulty"


class Binding(Value, frozen=True, kw_only=True):
    """Capabilities that a kit is about. Nothing is granted by it."""

    name: str
    """A capability, `family.*`, or `*` for all."""
    known: int = 0
    """How many capabilities of the catalog it names."""
    usable: int = 0
    """How many of these agents are shown: available or degraded."""


class Import(Value, frozen=True, kw_only=True):
    """What taking a server over into the project's registry would write, with nothing secret in it."""

    id: str
    """Of the entry."""
    entry: JsonObject
    digest: str
    """Over id and entry: what a person said yes to."""
    notes: tuple[str, ...] = ()
    """What is left out or written in another way, a sentence each."""


class Described(Value, frozen=True, kw_only=True):
    """One of them, as its file says. All its text comes from outside."""

    kind: SourceKind
    id: str
    name: str
    source: Origin
    path: str
    """The file: relative to the app root, `~/…` for the user's, empty for builtin ones."""
    version: str = ""
    type: str = ""
    """Of a kit `cli`, `tui`, `gateway` or `capability`; of a server `stdio`, `http` or `sse`."""
    summary: str = ""
    permissions: tuple[str, ...] = ()
    """What it says it needs: words, nothing is granted by them."""
    bindings: tuple[Binding, ...] = ()
    subscriptions: tuple[str, ...] = ()
    """Event classes that it says it listens to."""
    lines: tuple[str, ...] = ()
    """What else its file says, for a person: of a server its command and the names, never the values, of
    its variables and headers."""
    state: DescribedState = DescribedState.LISTED
    reasons: tuple[Diagnostic, ...] = ()
    """What is wrong, or why it is not simply listed."""
    offer: Import | None = None
    """Of a server that can be taken over."""

    @property
    def key(self) -> str:
        """`kind:id`, as it is named in differences and on the command line."""
        return f"{self.kind.value}:{self.id}"
