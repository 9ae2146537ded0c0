"""What a project or a person declares about one external program."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Anchor, Kind, ProbeMode, Source, UpgradeState
from flycore.model.json import JsonObject

DEFAULT_TIMEOUT_MS = 30_000
DEFAULT_MAX_OUTPUT_BYTES = 1_048_576
DEFAULT_PROBE_TIMEOUT_MS = 2_000
DEFAULT_IDLE_MS = 60_000


class Delegate(Value, frozen=True, kw_only=True):
    """A further program the sidecar may start. `command` follows the rules of the sidecar's own."""

    command: str
    args: tuple[str, ...] = ()


class Probe(Value, frozen=True, kw_only=True):
    """How and how long the sidecar is asked whether it is well."""

    mode: ProbeMode = ProbeMode.DEFAULT
    timeout_ms: int = DEFAULT_PROBE_TIMEOUT_MS


class Permissions(Value, frozen=True, kw_only=True):
    """What the program may touch; absent means nothing. Relative paths start at the app root."""

    network: bool = False
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    desktop: bool = False


class Limits(Value, frozen=True, kw_only=True):
    """Resource limits of the child; None leaves the system's own."""

    cpu_seconds: int | None = None
    memory_bytes: int | None = None
    file_bytes: int | None = None
    open_files: int | None = None


class ToolClaim(Value, frozen=True, kw_only=True):
    """A tool the sidecar offers: the name of a known capability, or `spec` describing a new one."""

    name: str
    spec: JsonObject | None = None


class SidecarEntry(Value, frozen=True, kw_only=True):
    """One entry of a registry. Valid when `problems` holds no error; else only `id`, what could be
    read and the problems are to be relied on."""

    id: str
    source: Source
    position: Position
    """Where the entry's key stands."""
    command: str = ""
    args: tuple[str, ...] = ()
    url: str = ""
    """Of an MCP server that is reached over HTTP; then there is no command."""
    headers: dict[str, str] = {}
    """With `url`. `${NAME}` stands for a declared secret."""
    cwd: Anchor = Anchor.APP
    env: dict[str, str] = {}
    pass_env: tuple[str, ...] = ()
    enabled: bool = True
    disabled_reason: str = ""
    kind: Kind = Kind.PROCESS_JSON
    instances: int = 1
    idle_ms: int = DEFAULT_IDLE_MS
    config: JsonObject = {}
    delegates: dict[str, Delegate] = {}
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    max_output_bytes: int = DEFAULT_MAX_OUTPUT_BYTES
    package_id: str | None = None
    package_version: str | None = None
    protocol_version: str | None = None
    compatible_core: str | None = None
    probe: Probe = Probe()
    permissions: Permissions = Permissions()
    limits: Limits = Limits()
    seal_in_place: bool = False
    tools: tuple[ToolClaim, ...] = ()
    """Of an MCP server: what it was found to offer, as capabilities; nothing in the value that was read."""
    picked: tuple[ToolClaim, ...] | None = None
    """Of an MCP server: those of its tools that are taken, by its own names; None for all."""
    upgrade: UpgradeState = UpgradeState.IDLE
    raw: JsonObject = {}
    """The entry as written, without comments: what trust is given to."""
    digest: str = ""
    """SHA-256 over id and the canonical form of `raw`."""
    problems: tuple[Diagnostic, ...] = ()
    text: str = ""
    """The entry as it stands in the file, from its key on: remedies find the line of a key in it."""

    @property
    def valid(self) -> bool:
        """Whether nothing about the entry is an error."""
        return not any(problem.severity is Severity.ERROR for problem in self.problems)

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Names of all tools claimed, in the order of the file."""
        return tuple(claim.name for claim in self.tools)


class Registry(Value, frozen=True, kw_only=True):
    """Everything the registry files of one app root declare, layers already merged."""

    app_root: str
    config_dir: str
    workspace: str
    entries: tuple[SidecarEntry, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    """Findings about files as wholes; those about one entry are in its `problems`."""
    files: tuple[str, ...] = ()
    """Paths of the files that were read."""
    digest: str = ""
    """Over the bytes of all files: equal digests, equal registries."""

    def entry(self, sidecar: str) -> SidecarEntry | None:
        """The entry with that id."""
        return next((entry for entry in self.entries if entry.id == sidecar), None)
