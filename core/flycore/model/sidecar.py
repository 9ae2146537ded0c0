"""Registry values: what a project or a person declares about external programs."""

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
    """A further program that the sidecar may start. Its `command` follows the same rules as the sidecar's."""

    command: str
    args: tuple[str, ...] = ()


class Probe(Value, frozen=True, kw_only=True):
    """How the sidecar is probed, and the time limit in milliseconds."""

    mode: ProbeMode = ProbeMode.DEFAULT
    timeout_ms: int = DEFAULT_PROBE_TIMEOUT_MS


class Permissions(Value, frozen=True, kw_only=True):
    """What the program may use; what is absent it may not use. Relative paths start at the app root."""

    network: bool = False
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    desktop: bool = False


class Limits(Value, frozen=True, kw_only=True):
    """Resource limits of the child process; None leaves the system's own limit."""

    cpu_seconds: int | None = None
    memory_bytes: int | None = None
    file_bytes: int | None = None
    open_files: int | None = None


class ToolClaim(Value, frozen=True, kw_only=True):
    """A tool that the sidecar offers: the name of a known capability, or `spec` with the description of a new
    one."""

    name: str
    spec: JsonObject | None = None


class SidecarEntry(Value, frozen=True, kw_only=True):
    """One entry of a registry. It is valid where `problems` holds no error; else only `id`, the parts that
    could be read, and the problems can be relied on."""

    id: str
    source: Source
    position: Position
    """Position of the entry's key."""
    command: str = ""
    args: tuple[str, ...] = ()
    url: str = ""
    """Address of an MCP server that is reached over HTTP; then there is no command."""
    headers: dict[str, str] = {}
    """Headers of the requests to `url`. `${NAME}` stands for a declared secret."""
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
    """The tools that it offers. For an MCP server they are added when the server has listed them."""
    picked: tuple[ToolClaim, ...] | None = None
    """For an MCP server: the tools that are used, by the server's own names; None for all."""
    upgrade: UpgradeState = UpgradeState.IDLE
    raw: JsonObject = {}
    """The entry as it is written, without comments. Trust is given to this value."""
    digest: str = ""
    """SHA-256 over id and the canonical form of `raw`."""
    problems: tuple[Diagnostic, ...] = ()
    text: str = ""
    """The entry's text in the file, from its key on; remedies find the lines of keys in it."""

    @property
    def valid(self) -> bool:
        """Whether the entry has no errors."""
        return not any(problem.severity is Severity.ERROR for problem in self.problems)

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools it offers, in the order of the file."""
        return tuple(claim.name for claim in self.tools)


class Registry(Value, frozen=True, kw_only=True):
    """Everything that the registry files of one app root declare, with their layers merged."""

    app_root: str
    config_dir: str
    workspace: str
    entries: tuple[SidecarEntry, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    """Diagnostics of whole files; those of an entry are in its `problems`."""
    files: tuple[str, ...] = ()
    """Paths of the files that were read."""
    digest: str = ""
    """Digest over the bytes of all files; registries with equal digests are equal."""

    def entry(self, sidecar: str) -> SidecarEntry | None:
        """Return the entry with that id."""
        return next((entry for entry in self.entries if entry.id == sidecar), None)
