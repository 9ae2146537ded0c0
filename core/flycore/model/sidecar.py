"""Registry values: what a project or a person declares about external programs."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from flycore.model.base import Value
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.enums import Anchor, Kind, ProbeMode, Source, UpgradeState
from flycore.model.json import Json, JsonObject, digest
from flycore.model.tool_exec import SecretType, ToolExec

DEFAULT_TIMEOUT_MS = 30_000
DEFAULT_MAX_OUTPUT_BYTES = 1_048_576
DEFAULT_MEMORY_BYTES = 536_870_912
DEFAULT_PROCESSES = 512
"""Processes of one call. A server with its helpers, a browser with a process for each page and a parallel
build have less than two hundred; a system has 32,768 process ids by default, so that sixty runaways at once
leave some."""
DEFAULT_MAX_INPUT_BYTES = 1_048_576
DEFAULT_PROBE_TIMEOUT_MS = 2_000
DEFAULT_IDLE_MS = 60_000


OWN_PROGRAM = "flytui-sidecar"
"""The command that starts the sidecars of this distribution."""
_ADDRESS = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]{0,31}://")


def _addresses(value: Json) -> Iterator[str]:
    """Return the strings in the value that begin like an address."""
    if isinstance(value, str):
        if _ADDRESS.match(value):
            yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _addresses(item)


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
    optional_secrets: tuple[str, ...] = ()
    """Those of `secrets` without which the tool runs, too."""
    secret_types: tuple[tuple[str, SecretType], ...] = ()
    """The types of those of `secrets` that are no plain text."""
    desktop: bool = False


class Limits(Value, frozen=True, kw_only=True):
    """Resource limits of the child process; None leaves the system's own limit, but for memory: without a
    limit of its own a program may write to `DEFAULT_MEMORY_BYTES` of it; and for processes, of which a call
    may have `DEFAULT_PROCESSES`."""

    cpu_seconds: int | None = None
    memory_bytes: int | None = None
    file_bytes: int | None = None
    open_files: int | None = None
    processes: int | None = None
    """Processes of one call together. The kernel counts them; the others are limits of each process."""

    @property
    def most_processes(self) -> int:
        """How many processes a call may have."""
        return DEFAULT_PROCESSES if self.processes is None else self.processes

    @property
    def most_memory(self) -> int:
        """How many bytes of memory the processes of a call may use together, where a control group limits
        them, and each of them may write to."""
        return DEFAULT_MEMORY_BYTES if self.memory_bytes is None else self.memory_bytes


class ToolClaim(Value, frozen=True, kw_only=True, gc=False):
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
    """Address of an MCP server that is reached over HTTP; or of the request of the kind http, where it may
    hold placeholders. Then there is no command."""
    headers: dict[str, str] = {}
    """Headers of the requests to `url`. `${NAME}` stands for a declared secret; for the kind http also for an
    input."""
    exec: ToolExec | None = None
    """For the kinds http, command and python: what is run."""
    working_dir: str = ""
    """For the kinds command and python: the folder that the program starts in, below the folder that `cwd`
    names."""
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
    max_input_bytes: int = DEFAULT_MAX_INPUT_BYTES
    package_id: str | None = None
    package_version: str | None = None
    protocol_version: str | None = None
    compatible_core: str | None = None
    probe: Probe = Probe()
    permissions: Permissions = Permissions()
    limits: Limits = Limits()
    dialect: str = ""
    """The dialect of the fields that its program reads and answers, such as `flyflor`."""
    seal_in_place: bool = False
    restarts_on_cancel: bool = False
    """For an MCP server: whether it is restarted where it does not end a cancelled call."""
    samples: bool = False
    """For an MCP server: whether it may ask the model of the client whose call it works on, each time after a
    person's yes."""
    tools: tuple[ToolClaim, ...] = ()
    """The tools that it offers. For an MCP server they are added when the server has listed them."""
    picked: tuple[ToolClaim, ...] | None = None
    """For an MCP server: the tools that are used, by the server's own names; None for all."""
    rename: dict[str, str] = {}
    """For an MCP server: the names that its tools have here below the entry's id, by the server's own."""
    took_over: dict[str, str] = {}
    """For an entry of a project: the tools that it took over from the user's own registry, with the ids of
    the entries that offer them there. `id.*` stands for the tools of an MCP server."""
    origin: str = ""
    """Where its tools come from: its id, and behind `@` 16 hex digits of a digest over the file's owner, the
    app root of a project's file, and the program or address. The registry sets it."""
    upgrade: UpgradeState = UpgradeState.IDLE
    raw: JsonObject = {}
    """The entry as it is written, without comments. Trust is given to this value."""
    digest: str = ""
    """SHA-256 over id and the canonical form of `raw`."""
    problems: tuple[Diagnostic, ...] = ()
    text: str = ""
    """The entry's text in the file, from its key on; remedies find the lines of keys in it."""
    file: str = ""
    """For a discovered entry: absolute path of the executable or manifest that it was made from."""
    folder: str = ""
    """For a discovered entry: absolute path of the folder that its relative command starts from; empty where
    that is the folder of its `command_anchor`."""
    sha256: str = ""
    """For an executable outside of the user's own folders: the digest of the bytes that trust is given to."""
    creator: str = ""
    """For a tool that an agent made: who that was."""
    in_user_folder: bool = False
    """For a discovered entry: whether its file lies in a folder of the user's own, and is trusted by that."""

    def with_origin(self, app_root: str) -> SidecarEntry:
        """Return the entry with its `origin`, as one of that app root."""
        # The user's own entries are the same in every root; a project's are that project's alone.
        root = "" if self.users_own else app_root
        program: list[Json] = [self.kind.value, self.command, list(self.args), self.url]
        program += [self.file] if self.file else []
        made = digest([self.source.value, root, self.id, program])
        return msgspec.structs.replace(self, origin=f"{self.id}@{made[:16]}")

    @property
    def file_alias(self) -> str:
        """For an executable: the name of its file without the last ending."""
        if self.kind is not Kind.EXECUTABLE:
            return ""
        name = self.command.rpartition("/")[2]
        return name.rpartition(".")[0] or name

    @property
    def users_own(self) -> bool:
        """Whether the user wrote it, or put its file into a folder of the user's own: then it is trusted."""
        return self.source is Source.USER or self.in_user_folder

    @property
    def command_anchor(self) -> Anchor:
        """The folder that relative commands start from."""
        if self.folder:
            return Anchor.TOOLS
        if self.cwd is not Anchor.EMPTY:
            return self.cwd
        return Anchor.CONFIG if self.source is Source.USER else Anchor.APP

    @property
    def valid(self) -> bool:
        """Whether the entry has no errors."""
        return not any(problem.severity is Severity.ERROR for problem in self.problems)

    @property
    def config_address(self) -> str:
        """The first address in the config of one of flytui's own programs; empty where there is none."""
        # What other programs do with their config is not known. The own ones send to the addresses in it.
        own = self.command.rpartition("/")[2] == OWN_PROGRAM
        return next(_addresses(self.config), "") if own else ""

    @property
    def effective_permissions(self) -> Permissions:
        """What the program may use in effect: an address in its config is a permission for the network."""
        if self.permissions.network or not self.config_address:
            return self.permissions
        return msgspec.structs.replace(self.permissions, network=True)

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools it offers, in the order of the file."""
        return tuple(claim.name for claim in self.tools)

    def takes_over(self, tool: str) -> bool:
        """Whether this entry took that tool over from the user's own registry."""
        # The id of an MCP server may hold dots, and the last part of its tools' names holds none.
        return tool in self.took_over or f"{tool.rpartition('.')[0]}.*" in self.took_over


class AppliedBundle(Value, frozen=True, kw_only=True):
    """What names one bundle that a person applied."""

    name: str
    number: int
    digest: str
    """SHA-256 over key and content: 64 hex digits."""
    key: str
    """The public key that signed it: 64 hex digits."""


class Registry(Value, frozen=True, kw_only=True):
    """Everything that the registry files of one app root declare, with their layers merged."""

    app_root: str
    config_dir: str
    workspace: str
    data_dir: str = ""
    """The user's data folder, with the packages of the user."""
    entries: tuple[SidecarEntry, ...] = ()
    replaced: tuple[SidecarEntry, ...] = ()
    """The user's entries whose ids the project has, too."""
    bundles: tuple[AppliedBundle, ...] = ()
    """The bundles that apply, in the order of their names."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """Diagnostics of whole files; those of an entry are in its `problems`."""
    files: tuple[str, ...] = ()
    """Paths of the files that were read."""
    digest: str = ""
    """Digest over the bytes of all files; registries with equal digests are equal."""

    def entry(self, sidecar: str) -> SidecarEntry | None:
        """Return the entry with that id."""
        return next((entry for entry in self.entries if entry.id == sidecar), None)
