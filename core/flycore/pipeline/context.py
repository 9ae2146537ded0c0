"""The dependencies of a call's steps, one value for each kind of step, so that a signature shows what it can
do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from flycore.approval.desktop_control import DesktopControl
from flycore.approval.exclusive_groups import GroupLocks
from flycore.approval.grants import GrantStore
from flycore.approval.leases import LeaseStore
from flycore.approval.loop_guard import LoopGuard
from flycore.approval.queue import ApprovalQueue
from flycore.approval.quota import Quota
from flycore.approval.tool_blocks import ToolBlockStore
from flycore.audit.log import AuditLog
from flycore.model.approval import Checks, MatchedRule, Subject
from flycore.model.clock import Clock
from flycore.pipeline.activity import ActivityLog
from flycore.pipeline.artifacts import ArtifactFolders
from flycore.pipeline.state import CurrentState, RootEnvironment
from flycore.pipeline.targets.window import Desktop, ProtectedWindows
from flycore.runners.mcp.call import McpCall
from flycore.runners.one_shot import ProcessJsonJob, RunOutcome
from flycore.runners.output import OnEvent
from flycore.runners.pool import ProcessPool


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

    def checks(self, subject: Subject) -> Checks:
        """How a person answered the same call earlier today."""
        ...


@dataclass(frozen=True, slots=True)
class JudgeContext:
    """What resolving, preparing and judging a call reads. Nothing here starts the tool or asks a person."""

    root: RootEnvironment
    clock: Clock
    state: CurrentState
    blocks: ToolBlockStore
    desktop: Desktop
    protected_windows: Callable[[], ProtectedWindows]
    note_rules: Callable[[tuple[MatchedRule, ...]], None]
    """Is called with the rules by which each call was judged."""


@dataclass(frozen=True, slots=True)
class AdmissionContext:
    """What decides whether calls are admitted at all, whatever they would do."""

    app_root: Path
    stopped: Callable[[], bool]
    """Whether everything is stopped until a person releases it."""
    loops: LoopGuard
    quota: Quota


@dataclass(frozen=True, slots=True)
class AskContext:
    """What the step that asks a person needs."""

    app_root: Path
    clock: Clock
    audit: AuditLog
    queue: ApprovalQueue
    past_calls: PastCalls
    desktop: Desktop
    wait_for_approver: Callable[[int], Awaitable[bool]]
    """Whether a console can decide; waits for one to open, at most so many milliseconds."""


@dataclass(frozen=True, slots=True)
class SlotContext:
    """What an approved call waits for before it runs: its exclusive group, its process, its server."""

    groups: GroupLocks
    leases: LeaseStore
    grants: GrantStore
    processes: ProcessPool
    mcp_servers: McpSlots


@dataclass(frozen=True, slots=True)
class RunContext:
    """What the step that starts a sidecar needs."""

    root: RootEnvironment
    state: CurrentState
    audit: AuditLog
    folders: ArtifactFolders
    desktop_control: DesktopControl
    protected_windows: Callable[[], ProtectedWindows]
    note_run: Callable[[str, str, str, str], None]
    """Is called with the outcome of each run: sidecar, code (empty for success), message, stderr tail."""


@dataclass(frozen=True, slots=True)
class PipelineContext:
    """The dependencies of all steps. Only the pipeline itself and the run of a plan see them together."""

    clock: Clock
    audit: AuditLog
    activity: ActivityLog
    judge: JudgeContext
    admission: AdmissionContext
    ask: AskContext
    slots: SlotContext
    run: RunContext
