"""What the steps of a call work with: files and state of the root, and the dependencies of each kind of step.

The environment of a root is fixed while a kernel runs. Its state is replaced as a whole when something
changes. A step is handed the value of its kind, so that its signature shows what it can do.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import msgspec

from flycore.approval.accepted_seals import AcceptedSeals
from flycore.approval.entry_summary import COMMAND
from flycore.model.enums import Anchor, PathState, Risk
from flycore.registry.created_tools import DEFAULT_LIMIT
from flycore.registry.paths import USER_PACKAGES_DIR
from flycore.registry.resolve import resolve_program
from flycore.sandbox.call_confinement import declared_path
from flycore.sandbox.detection import UNTRIED
from flycore.sandbox.digests import PACKAGES
from flycore.sandbox.environment import working_folder
from flycore.sandbox.keyring_secrets import KeyringSecrets
from flycore.sandbox.seals import StartConditions, is_bundled
from flycore.sandbox.secret_masks import Masks

# Whoever reads the state alone, such as a command without a kernel, needs none of what runs calls: to import
# that takes longer than all the rest of such a command.
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    import anyio

    from flycore.approval.desktop_control import DesktopControl
    from flycore.approval.exclusive_groups import GroupLocks
    from flycore.approval.grants import GrantStore
    from flycore.approval.leases import LeaseStore
    from flycore.approval.loop_guard import LoopGuard
    from flycore.approval.queue import ApprovalQueue
    from flycore.approval.quota import Quota
    from flycore.approval.tool_blocks import ToolBlockStore
    from flycore.audit.log import AuditLog
    from flycore.catalog.observations import Observations
    from flycore.model.approval import Checks, MatchedRule, NamedPlaces, PastUse, Subject
    from flycore.model.caller import Caller
    from flycore.model.catalog import CapabilityView, Catalog
    from flycore.model.clock import Clock
    from flycore.model.enums import Level
    from flycore.model.json import JsonObject
    from flycore.model.package import PackageView
    from flycore.model.program import ResolvedProgram
    from flycore.model.sidecar import Registry, SidecarEntry
    from flycore.pipeline.activity import ActivityLog
    from flycore.pipeline.artifacts import ArtifactFolders
    from flycore.pipeline.targets.window import Desktop, ProtectedWindows
    from flycore.policy.evaluate import Policy
    from flycore.registry.paths import RootPaths
    from flycore.registry.settings import Settings
    from flycore.runners.mcp.call import McpCall
    from flycore.runners.one_shot import ProcessJsonJob, RunOutcome
    from flycore.runners.output import OnEvent
    from flycore.runners.pool import ProcessPool
    from flycore.runners.workspace.run import Workspace
    from flycore.sandbox.detection import SandboxSupport
    from flycore.sandbox.seals import Distribution

MOST_CONDITIONS = 4_096


@dataclass(frozen=True, slots=True)
class RootEnvironment:
    """What does not change while a kernel runs: its paths, its environment variables, its distribution."""

    places: RootPaths
    environ: Mapping[str, str]
    interpreter_dir: Path
    distribution: Distribution | None
    accepted: AcceptedSeals = field(default_factory=AcceptedSeals)
    """The programs that a person has accepted."""
    known_conditions: dict[tuple[object, ...], StartConditions] = field(default_factory=dict)
    """What `conditions` has worked out."""
    seal_order: dict[str, anyio.Lock] = field(default_factory=dict)
    """By sidecar: the order in which calls seal its programs."""
    keyring: KeyringSecrets = field(default_factory=KeyringSecrets)
    """What the system's keyring gave for declared secrets that the environment does not have."""

    login_tokens: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)
    """By sidecar, the tokens with which this process called its server, for the masks."""

    @property
    def secret_values(self) -> Mapping[str, str]:
        """The variables and what the keyring gave, for declared secrets alone."""
        return self.keyring.over(self.environ)

    def resolve(
        self, registry: Registry, entry: SidecarEntry, command: str, args: tuple[str, ...]
    ) -> ResolvedProgram:
        """The program that a command of that entry leads to on this machine."""
        return resolve_program(
            command,
            args,
            entry=entry,
            registry=registry,
            interpreter_dir=self.interpreter_dir,
            path_env=self.environ.get("PATH", ""),
        )

    def working_folder(self, registry: Registry, entry: SidecarEntry) -> str:
        """The folder that the entry's processes start in. Raises OSError where it cannot be made."""
        return working_folder(entry, registry, self.places.empty_dir)

    def conditions(self, registry: Registry, entry: SidecarEntry, level: Level) -> StartConditions:
        """How the entry's programs are started at that level, as far as their seals depend on it. Raises
        OSError."""
        # Worked out once for each value of an entry: the folders of a root do not move while a kernel runs,
        # and following their links for each call would take a tenth of its time.
        key = (entry.id, entry.digest, entry.source, registry.app_root, registry.workspace, level)
        found = self.known_conditions.get(key)
        if found is None:
            if len(self.known_conditions) >= MOST_CONDITIONS:
                self.known_conditions.clear()
            found = self.known_conditions[key] = self._conditions(registry, entry, level)
        return found

    def _conditions(self, registry: Registry, entry: SidecarEntry, level: Level) -> StartConditions:
        app_root = os.path.realpath(registry.app_root)
        own = os.path.realpath(os.path.join(registry.config_dir, "tools"))
        packages = os.path.join(app_root, PACKAGES)
        if entry.cwd is Anchor.DATA:
            packages = os.path.join(os.path.realpath(registry.data_dir), USER_PACKAGES_DIR)
        return StartConditions(
            in_place=entry.seal_in_place,
            distribution=self.distribution,
            packages=packages,
            anchors=tuple(dict.fromkeys((app_root, os.path.realpath(registry.workspace), own))),
            cwd=os.path.realpath(self.working_folder(registry, entry)),
            env=tuple(sorted(entry.env.items())),
            level=level,
            granted=self._declared(app_root, entry.permissions.read),
            written=self._declared(app_root, entry.permissions.write),
            home=os.path.realpath(self.environ.get("HOME", "")) if self.environ.get("HOME") else "",
        )

    def _declared(self, app_root: str, paths: tuple[str, ...]) -> tuple[str, ...]:
        home = self.environ.get("HOME", "")
        return tuple(declared_path(path, app_root, home) for path in paths if "${" not in path)

    def bundled(self, program: ResolvedProgram | None) -> bool:
        """Whether the program is one of this distribution's own sidecars."""
        return (
            program is not None and self.distribution is not None and is_bundled(program, self.distribution)
        )


class Files(msgspec.Struct, frozen=True):
    """The content of a root's files, read together: as they are written, or with the entries in force."""

    registry: Registry
    policy: Policy
    settings: Settings
    programs: Mapping[str, ResolvedProgram]
    """Sidecar id to the program that its command leads to."""
    delegates: Mapping[str, Mapping[str, ResolvedProgram]]
    project_limits: tuple[JsonObject, ...] = ()
    """The limits that the project's files set for tools that agents make."""
    packages: tuple[PackageView, ...] = ()
    """The packages that are installed or staged."""
    trusted: frozenset[str] = frozenset()
    """The sidecars that may run; empty for the files as they are written."""
    changed: Mapping[str, tuple[str, ...]] = {}
    """Sidecars whose changed entry waits for trust, with its difference from the one in force."""

    def resolutions(self, sidecar: str) -> dict[str, ResolvedProgram]:
        """Return the programs of the sidecar's command, under `COMMAND`, and of its delegates by name."""
        program = self.programs.get(sidecar)
        own = {COMMAND: program} if program is not None else {}
        return {**self.delegates.get(sidecar, {}), **own}

    def is_resolved(self, sidecar: str) -> bool:
        """Return whether the program of the sidecar's command was found."""
        program = self.programs.get(sidecar)
        return program is not None and program.state is PathState.RESOLVED


@dataclass(frozen=True, slots=True)
class RootState:
    """The files in force of one moment, the catalog, and what calls look up: parts that belong together."""

    files: Files
    registry: Registry
    """The registry in force, with the tools that programs have listed."""
    catalog: Catalog
    index: Mapping[str, CapabilityView] = field(default_factory=dict)
    """Tool name to its view in the catalog."""
    entries: Mapping[str, SidecarEntry] = field(default_factory=dict)
    """Sidecar id to its entry in the registry."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The secrets that trusted entries declare, by name."""
    support: SandboxSupport = UNTRIED
    """The levels of the sandbox that work here."""
    created_limits: tuple[JsonObject, ...] = (DEFAULT_LIMIT,)
    """The limits of permissions that each tool of an agent stays within."""
    masks: Masks = field(default_factory=lambda: Masks({}), repr=False)
    """Masks over these secrets, for the results, lines and events of every sidecar: a sidecar may have got
    hold of another one's secret."""

    def masks_with(self, more: Mapping[str, str]) -> Masks:
        """Masks over the root's secrets and those of one call, which may be gone from the registry by now."""
        missing = more.items() - self.secrets.items()
        return Masks({**self.secrets, **more}) if missing else self.masks


class CurrentState:
    """Holds the present root state for all its readers. One writer replaces it as a whole."""

    def __init__(self, root_state: RootState) -> None:
        self._root_state = root_state

    @property
    def latest(self) -> RootState:
        """The present state. A function reads it once: the next read may give another state, and parts of two
        states do not fit together."""
        return self._root_state

    def replace(self, root_state: RootState) -> None:
        """Make `root_state` the present state. Calls under way see it from their next read on."""
        self._root_state = root_state


class LiveLimits:
    """The limits of queue and quota as the user's settings have them now, read at each use, so that a change
    counts without a restart. A limit that was lowered refuses what comes next and ends nothing."""

    def __init__(self, state: CurrentState) -> None:
        self._state = state

    @property
    def per_caller(self) -> int:
        """How many requests of one caller may wait for a person."""
        return self._state.latest.files.settings.queue_per_caller

    @property
    def total(self) -> int:
        """How many requests may wait for a person in all."""
        return self._state.latest.files.settings.queue_total

    def timeout(self, risk: Risk) -> float:
        """How long a request of that risk waits for a person, in seconds."""
        return self._state.latest.files.settings.approval_times.of(risk) / 1000

    @property
    def calls_per_minute(self) -> int:
        """How many calls of one caller may begin within a minute."""
        return self._state.latest.files.settings.calls_per_minute

    @property
    def asked_per_minute(self) -> int:
        """How many calls of one caller that a person would be asked about may begin within a minute."""
        return self._state.latest.files.settings.asked_per_minute

    @property
    def running(self) -> int:
        """How many calls of one caller may run at once."""
        return self._state.latest.files.settings.running

    @property
    def high_risk_per_session(self) -> int:
        """How many high-risk calls one process of a caller may make."""
        return self._state.latest.files.settings.high_risk_per_session


class Slot(Protocol):
    """A place at a persistent process or at an MCP server, for one call."""

    @property
    def key(self) -> Hashable:
        """The key of the process, which may keep the call's files open; None where it is handed none."""
        ...

    async def call(self, job: ProcessJsonJob, on_event: OnEvent | None = None) -> RunOutcome:
        """Run the call; every end is an outcome."""
        ...


class McpSlots(Protocol):
    """The sessions with MCP servers, each with a place for some calls."""

    async def ready(self, tool: str) -> None:
        """Wait, for a bounded time, for the first tool list of the server that the tool's name points to."""
        ...

    def hold(
        self, sidecar: str, asked: McpCall, on_wait: Callable[[str], None]
    ) -> AbstractAsyncContextManager[Slot]:
        """Hold a place for one call while the block runs. `on_wait` is called with the reason, where that
        takes waiting."""
        ...


class PastCalls(Protocol):
    """The decisions on earlier calls, as the log has them."""

    async def ready(self) -> None:
        """Wait until the log has been read."""
        ...

    def checks(self, subject: Subject, caller: Caller) -> Checks:
        """How a person answered the same call earlier today."""
        ...

    def past_use(self, tool: str, named: NamedPlaces) -> PastUse:
        """What the log knows of these places, and of earlier calls of the tool."""
        ...


class JudgeContext(msgspec.Struct, frozen=True):
    """What resolving, preparing and judging a call reads. Nothing here starts the tool or asks a person."""

    root: RootEnvironment
    clock: Clock
    state: CurrentState
    blocks: ToolBlockStore
    desktop: Desktop
    protected_windows: Callable[[], ProtectedWindows]
    note_rules: Callable[[tuple[MatchedRule, ...]], None]
    """Is called with the rules by which each call was judged."""


class AdmissionContext(msgspec.Struct, frozen=True):
    """What decides whether calls are admitted at all, whatever they would do."""

    app_root: Path
    stopped: Callable[[], bool]
    """Whether everything is stopped until a person releases it."""
    loops: LoopGuard
    quota: Quota


class AskContext(msgspec.Struct, frozen=True):
    """What the step that asks a person needs."""

    app_root: Path
    clock: Clock
    audit: AuditLog
    queue: ApprovalQueue
    past_calls: PastCalls
    desktop: Desktop
    wait_for_approver: Callable[[int], Awaitable[bool]]
    """Whether a console can decide; waits for one to open, at most so many milliseconds."""


class SlotContext(msgspec.Struct, frozen=True):
    """What an approved call waits for before it runs: its exclusive group, its process, its server."""

    groups: GroupLocks
    leases: LeaseStore
    grants: GrantStore
    processes: ProcessPool
    mcp_servers: McpSlots


class RunContext(msgspec.Struct, frozen=True):
    """What the step that starts a sidecar needs."""

    root: RootEnvironment
    state: CurrentState
    audit: AuditLog
    folders: ArtifactFolders
    desktop_control: DesktopControl
    protected_windows: Callable[[], ProtectedWindows]
    workspace: Workspace
    """The files of the project, for the kernel's own tools."""
    observations: Observations
    """What was seen of the sidecars; the end of each call is noted there."""


class PipelineContext(msgspec.Struct, frozen=True):
    """The dependencies of all steps. Only the pipeline itself and the run of a plan see them together."""

    clock: Clock
    audit: AuditLog
    activity: ActivityLog
    judge: JudgeContext
    admission: AdmissionContext
    ask: AskContext
    slots: SlotContext
    run: RunContext
