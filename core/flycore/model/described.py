"""Values for what files describe: kits, skills, plugins and other clients' servers. Reading runs none of
it."""

from __future__ import annotations

from enum import StrEnum

from flycore.model.base import Value
from flycore.model.diagnostics import Diagnostic
from flycore.model.json import JsonObject


class SourceKind(StrEnum):
    """The kind of a described thing."""

    KIT = "kit"
    SKILL = "skill"
    PLUGIN = "plugin"
    MCP_SERVER = "mcp-server"


class Origin(StrEnum):
    """Whose file describes it."""

    BUILTIN = "builtin"
    PROJECT = "project"
    USER = "user"
    BUNDLE = "bundle"


class DescribedState(StrEnum):
    """What flytui makes of it."""

    LISTED = "listed"
    SHADOWED = "shadowed"
    """Another one of the same kind and id is used instead; the reason names it."""
    REGISTERED = "registered"
    """A server that the registry declares already."""
    ITSELF = "itself"
    """flytui's own entry in another client's file. It is never used as a server of flytui."""
    FAULTY = "faulty"


class Binding(Value, frozen=True, kw_only=True):
    """Capabilities that a kit names. It grants nothing."""

    name: str
    """A capability, `family.*`, or `*` for all."""
    known: int = 0
    """How many capabilities of the catalog it names."""
    usable: int = 0
    """How many of these are shown to agents, because they are available or degraded."""


class Import(Value, frozen=True, kw_only=True):
    """The entry that importing a server would write into the project's registry, without secrets."""

    id: str
    """Id of the entry."""
    entry: JsonObject
    digest: str
    """Digest over id and entry, which a person's approval is bound to."""
    notes: tuple[str, ...] = ()
    """Sentences that say what is left out or written differently."""


class Described(Value, frozen=True, kw_only=True):
    """One kit, skill, plugin or server, as its file describes it. All its texts come from outside."""

    kind: SourceKind
    id: str
    name: str
    source: Origin
    path: str
    """Path of the file: relative to the app root, `~/…` for the user's, empty for a builtin one."""
    version: str = ""
    type: str = ""
    """For a kit `cli`, `tui`, `gateway` or `capability`; for a server `stdio`, `http` or `sse`."""
    summary: str = ""
    permissions: tuple[str, ...] = ()
    """The permissions that it says it needs. They grant nothing."""
    bindings: tuple[Binding, ...] = ()
    subscriptions: tuple[str, ...] = ()
    """Classes of events that it says it listens to."""
    lines: tuple[str, ...] = ()
    """Further lines for a person: for a server, its command and the names of its variables and headers, never
    their values."""
    state: DescribedState = DescribedState.LISTED
    reasons: tuple[Diagnostic, ...] = ()
    """Its faults, or why it is not simply listed."""
    offer: Import | None = None
    """For a server that can be imported: the entry that would be written."""

    @property
    def key(self) -> str:
        """The name `kind:id`, used in differences and on the command line."""
        return f"{self.kind.value}:{self.id}"
