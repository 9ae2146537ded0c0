"""The enumerations of every state in the kernel. No state is kept as a bare string."""

from __future__ import annotations

from enum import StrEnum

from flycore.model.base import OrderedEnum


class Risk(OrderedEnum):
    """How much harm a wrong call can do. `critical` comes from policy only."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class Decision(OrderedEnum):
    """Policy's decision on a call; the strictest matching rule wins."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Layer(StrEnum):
    """The three kinds of capability: the kernel's own, a sidecar's tool, and a plan over such tools."""

    BUILTIN = "builtin"
    ATOMIC = "atomic"
    HIGH = "high"


class Source(StrEnum):
    """Where an entry came from: a layer of the registry, or a file that describes a tool by itself."""

    PROJECT = "project"
    USER = "user"
    BUNDLE = "bundle"
    """A team bundle that the user applied."""
    EXECUTABLE = "executable"
    """An executable in a folder of tools."""
    MANIFEST = "manifest"
    """A tool manifest."""

    @property
    def discovered(self) -> bool:
        """Whether such entries are made from files that were found, without a line in a registry."""
        return self in (Source.EXECUTABLE, Source.MANIFEST)


class Kind(StrEnum):
    """The protocol of a sidecar. This version runs `RUNNABLE_KINDS`, and reports the others."""

    PROCESS_JSON = "process-json"
    PERSISTENT = "process-json-persistent"
    EXECUTABLE = "executable"
    HTTP = "http"
    COMMAND = "command"
    PYTHON = "python"
    MCP = "mcp"


EXEC_KINDS = (Kind.HTTP, Kind.COMMAND, Kind.PYTHON)
"""The kinds whose entry says under `exec` what is run, instead of naming a program of the protocol."""
RUNNABLE_KINDS = (Kind.PROCESS_JSON, Kind.PERSISTENT, Kind.EXECUTABLE, Kind.MCP, *EXEC_KINDS)


class Envelope(StrEnum):
    """The form in which an executable answers a call. It follows from the form of its schema."""

    PARAMETERS = "parameters"
    """An object with `success`, and with `result` or `error`."""
    OBJECT = "object"
    """Any object is the output, whatever fields it has."""
    UNKNOWN = "unknown"
    """Its schema is not known. An answer with `success` is read as `PARAMETERS`, another one as `OBJECT`."""


class Anchor(StrEnum):
    """A folder that relative paths start from. `project` in a file is read as `app`."""

    APP = "app"
    CONFIG = "config"
    WORKSPACE = "workspace"
    EMPTY = "empty"
    """A folder without files, as a working folder. Commands start from the folder of the registry's kind."""
    TOOLS = "tools"
    """The folder that a discovered tool was found in. No file can name it."""
    DATA = "data"
    """The user's data folder, with the packages of the user. Only the user's registry can name it."""


class ProbeMode(StrEnum):
    """How a sidecar is probed. An entry that names no mode has `default`."""

    OFF = "off"
    COMMAND = "command"
    REQUEST = "request"
    DEFAULT = "default"


class Discovery(StrEnum):
    """Whether any entry offers the tool."""

    CONFIGURED = "configured"
    MISSING = "missing"
    DISABLED = "disabled"


class Manifest(StrEnum):
    """Whether the entry meets the schema."""

    VALID = "valid"
    INVALID = "invalid"


class PathState(StrEnum):
    """Whether the command was found, and may be run."""

    RESOLVED = "resolved"
    UNRESOLVED = "unresolved"
    OUTSIDE_ROOT_DENIED = "outside-root-denied"


class VersionState(StrEnum):
    """The declared versions compared with this kernel and the installed package."""

    COMPATIBLE = "compatible"
    INCOMPATIBLE = "incompatible"
    UNKNOWN = "unknown"


class ProbeState(StrEnum):
    """What the sidecar says of itself when it is probed."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"
    SKIPPED = "skipped"


class RuntimeState(StrEnum):
    """What the last calls showed."""

    READY = "ready"
    FAILED = "failed"
    TIMED_OUT = "timed-out"
    SCHEMA_ERROR = "schema-error"


class SandboxState(StrEnum):
    """What policy, permission limit, machine and quota allow the tool."""

    ALLOWED = "allowed"
    APPROVAL_REQUIRED = "approval-required"
    DENIED = "denied"
    QUOTA_LIMITED = "quota-limited"


class UpgradeState(StrEnum):
    """The state of a package upgrade."""

    IDLE = "idle"
    STAGED = "staged"
    APPLYING = "applying"
    ROLLBACK_REQUIRED = "rollback-required"
    FAILED = "failed"


class PackageScope(StrEnum):
    """Whose package it is: that of one project, or that of the user in every project."""

    PROJECT = "project"
    USER = "user"


class PackageAction(StrEnum):
    """A change of an installed package."""

    APPLY = "apply"
    ROLLBACK = "rollback"
    REMOVE = "remove"


class PackageResult(StrEnum):
    """How a change of a package ended."""

    FAILED = "failed"
    """Nothing changed."""
    COMMITTED = "committed"
    UNSYNCED = "committed, durability unknown"
    """It was done, and an error came afterwards: it may not outlive a loss of power."""


class Effective(StrEnum):
    """The state of a tool in one word, computed from the other dimensions."""

    AVAILABLE = "available"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"
    DISABLED = "disabled"

    @property
    def usable(self) -> bool:
        """Whether agents are offered a tool in this state."""
        return self in (Effective.AVAILABLE, Effective.DEGRADED)


class AttentionCode(StrEnum):
    """What a person should look at on a card, the most seldom harmless first. `docs/approvals.md` has a
    section for each."""

    HIDDEN_CHARACTERS = "hidden-characters"
    LOOK_ALIKES = "look-alikes"
    PIPE_TO_SHELL = "pipe-to-shell"
    RECURSIVE_DELETE = "recursive-delete"
    SUDO = "sudo"
    PRESSES_ENTER = "presses-enter"
    CREDENTIAL = "credential"
    PUNYCODE = "punycode-host"
    RAW_ADDRESS = "raw-address"
    WRITES_OUTSIDE = "writes-outside"
    DOT_FILE = "dot-file"
    PROGRAM_CHANGED = "program-changed"
    DENIED_TODAY = "denied-today"
    NEW_HOST = "new-host"
    NEW_PATH = "new-path"
    UNUSUAL_SIZE = "unusual-size"


class ReasonCode(StrEnum):
    """Why a tool is unavailable, degraded or disabled."""

    NOT_CONFIGURED = "not-configured"
    DISABLED = "disabled"
    MANIFEST_INVALID = "manifest-invalid"
    KIND_UNSUPPORTED = "kind-unsupported"
    COMMAND_NOT_FOUND = "command-not-found"
    NOT_EXECUTABLE = "not-executable"
    INTERPRETER_MISSING = "interpreter-missing"
    OUTSIDE_ROOT_DENIED = "outside-root-denied"
    CORE_INCOMPATIBLE = "core-incompatible"
    PROTOCOL_INCOMPATIBLE = "protocol-incompatible"
    VERSION_UNKNOWN = "version-unknown"
    PROBE_UNAVAILABLE = "probe-unavailable"
    PROBE_DEGRADED = "probe-degraded"
    PROBE_SLOW = "probe-slow"
    PROGRAM_CHANGED = "program-changed"
    PROBE_TIMEOUT = "probe-timeout"
    TOOL_UNAVAILABLE = "tool-unavailable"
    DIALECT_UNKNOWN = "dialect-unknown"
    ANSWERED_UNAVAILABLE = "answered-unavailable"
    SCHEMA_UNKNOWN = "schema-unknown"
    DELEGATE_MISSING = "delegate-missing"
    SECRET_MISSING = "secret-missing"  # noqa: S105 - a reason code, not a secret
    LOGIN_NEEDED = "login-needed"
    RUNTIME_FAILED = "runtime-failed"
    RUNTIME_TIMED_OUT = "runtime-timed-out"
    RUNTIME_SCHEMA_ERROR = "runtime-schema-error"
    FOLDER_UNTRUSTED = "folder-untrusted"
    POLICY_DENIED = "policy-denied"
    BLOCKED = "blocked"
    CEILING_EXCEEDED = "ceiling-exceeded"
    SANDBOX_UNAVAILABLE = "sandbox-unavailable"
    PERMISSION_MISSING = "permission-missing"
    QUOTA_LIMITED = "quota-limited"
    UPGRADE_STAGED = "upgrade-staged"
    UPGRADE_APPLYING = "upgrade-applying"
    ROLLBACK_REQUIRED = "rollback-required"
    UPGRADE_FAILED = "upgrade-failed"


class Level(OrderedEnum):
    """How a call is confined: always the level that is really applied."""

    DENIED = "denied"
    NONE = "none"
    HOST_CONTROL = "host-control"
    DEGRADED = "degraded"
    ENFORCED = "enforced"


class SealKind(StrEnum):
    """What a seal covers, and so what "the program" means when it is approved."""

    BUNDLED = "bundled"
    SYSTEM = "system"
    FILE = "file"
    FOLDER = "folder"
    PACKAGE = "package"
    NAME = "name"


class Status(StrEnum):
    """How a call ended."""

    SUCCESS = "success"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"
    DENIED = "denied"
    PENDING = "pending"
    UNKNOWN = "unknown"


class Code(StrEnum):
    """Codes of `ToolResult.error` besides the reason codes of an unavailable tool."""

    FAILED = "failed"
    EXIT = "exit"
    SPAWN = "spawn"
    INVALID_OUTPUT = "invalid-output"
    OUTPUT_LIMIT = "output-limit"
    PROCESS_LIMIT = "process-limit"
    MEMORY_LIMIT = "memory-limit"
    CRASHED = "crashed"
    NOT_DONE = "not-done"
    """The program answered success, and its answer shows that it has not done what was asked."""
    PROTECTED_PATH = "protected-path"
    """The call would write, or has written, a file that runs by itself or says what runs."""
    INVALID_INPUT = "invalid-input"
    NOT_FOUND = "not-found"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    APPROVAL_TIMEOUT = "approval-timeout"
    APPROVAL_PENDING = "approval-pending"
    APPROVAL_STALE = "approval-stale"
    DENIED = "denied"
    BLOCKED = "blocked"
    POLICY = "policy"
    NO_APPROVER = "no-approver"
    QUEUE_FULL = "queue-full"
    QUOTA = "quota"
    PAUSED = "paused"
    PANIC = "panic"
    WITHDRAWN = "withdrawn"
    OUTCOME_UNKNOWN = "outcome-unknown"
    STATE_UNWRITABLE = "state-unwritable"
    """No kernel can be opened: its files cannot be written."""


class KernelRole(StrEnum):
    """The role of the kernel that owns an app root."""

    CONSOLE = "console"
    """The kernel beside a console, which decides."""
    HEADLESS = "headless"
    """A kernel without a console of its own: `flytui serve`, or one that a command started."""
    UNKNOWN = "unknown"
    """The role is not known, or this version does not have it."""

    @classmethod
    def _missing_(cls, value: object) -> KernelRole:
        return cls.UNKNOWN


class Phase(StrEnum):
    """The phase of a call."""

    CHECKING = "checking"
    WAITING_APPROVAL = "waiting-approval"
    WAITING_GROUP = "waiting-group"
    RUNNING = "running"
    FINISHED = "finished"


class RequestState(StrEnum):
    """The state of an approval request."""

    WAITING = "waiting"
    APPROVED = "approved"
    DENIED = "denied"
    TIMED_OUT = "timed-out"
    WITHDRAWN = "withdrawn"


class ProgramComparison(StrEnum):
    """Whether the programs of an entry are those that were trusted in another folder."""

    SAME = "same"
    CHANGED = "changed"
    UNKNOWN = "unknown"
    """One of both could not be read."""


class ProgramAuthor(StrEnum):
    """Who wrote the program of an entry, as far as its path says; the least unusual first."""

    OWN = "own"
    """It came with flytui, or flytui itself sends the request."""
    SYSTEM = "system"
    """It is installed on this machine."""
    FOLDER = "folder"
    """It lies in the project's folder, or the entry itself says what an interpreter runs."""
    MISSING = "missing"
    """It is not there now; what is put there later would run."""
    REMOTE = "remote"
    """It runs at an address."""
    DOWNLOADED = "downloaded"
    """Another program downloads it."""


class Choice(StrEnum):
    """The answers that a person can give on a card."""

    APPROVE_ONCE = "approve-once"
    LEASE = "lease"
    RULE = "rule"
    DENY = "deny"
    BLOCK = "block"


class LeaseScope(StrEnum):
    """Which calls of the caller a lease covers."""

    TOOL = "tool"
    GROUP = "group"
    """Every tool of the same exclusive group and sidecar."""
    HOST = "host"
    """The same tool, for addresses of the approved host."""
    INPUT = "input"
    """The same tool with exactly the approved input."""
    FOLDER = "folder"
    """The same tool, for paths below the folder of the approved ones."""


class QuestionKind(StrEnum):
    """The subject of a question that is not about one call."""

    TRUST = "trust"
    DRIFT = "drift"
    """A trusted entry has changed."""
    LOOP = "loop"
    """A caller repeats a call that fails."""
    PANIC = "panic"
    """Everything is stopped until a person releases it."""
    POLICY = "policy"
    """A looser rule that no console of this kernel wrote is in the user's policy file."""
    NESTED = "nested"
    """A program works on a root that lies within this one."""
    PACKAGE = "package"
    """A package is to be applied, rolled back or removed."""
    SERVER = "server"
    """An MCP server asks something during a call."""


class RootPermission(StrEnum):
    """Whether programs may work on a root that lies within another one, if they do not name it."""

    ALLOWED = "allowed"
    REFUSED = "refused"
    UNDECIDED = "undecided"
    """No person has answered yet."""
