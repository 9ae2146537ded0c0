"""What the pipeline is handed: every room it walks through and every edge it needs, named once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from flycore.approval.blocks import BlockBook
from flycore.approval.clock import Clock as Clock  # who walks through the rooms has it from here
from flycore.approval.groups import GroupLocks
from flycore.approval.guards import Quota
from flycore.approval.hands import HandsOn
from flycore.approval.loops import LoopGuard
from flycore.approval.queue import ApprovalQueue
from flycore.audit.log import AuditLog
from flycore.executive.folders import ArtifactFolders
from flycore.executive.preview import Desktop, Seat
from flycore.executive.world import World
from flycore.model.approval import Checks, MatchedRule, Subject
from flycore.model.events import Publish
from flycore.registry.places import Places
from flycore.runners.answer import OnEvent
from flycore.runners.pool import InstancePool
from flycore.runners.process_json import ProcessJsonJob, RunOutcome
from flycore.runners.upstream.calling import Asked
from flycore.sandbox.seals import Distribution


class CallPlace(Protocol):
    """Where a call is run that gets no process of its own."""

    @property
    def key(self) -> Hashable:
        """Whose files its process may hold open; None where it is handed none."""
        ...

    async def call(self, job: ProcessJsonJob, on_event: OnEvent | None = None) -> RunOutcome:
        """Run the call; every end is an outcome."""
        ...


class Upstreams(Protocol):
    """The sessions with MCP servers."""

    async def ready(self, tool: str) -> None:
        """Wait, bounded, for the first list of the server that the tool's name points to."""
        ...

    def hold(
        self, sidecar: str, asked: Asked, waits: Callable[[str], None]
    ) -> AbstractAsyncContextManager[CallPlace]:
        """Have a place for one call for the block; `waits` is told why that takes waiting."""
        ...


class PastCalls(Protocol):
    """What the log says of earlier calls."""

    async def ready(self) -> None:
        """Wait until the log has been read."""
        ...

    def checks(self, subject: Subject) -> Checks:
        """How a person answered the same call today."""
        ...


@dataclass(frozen=True, slots=True)
class Rooms:
    """Everything a call may need. Nothing here is looked up anywhere else."""

    places: Places
    clock: Clock
    environ: Mapping[str, str]
    interpreter_dir: Path
    distribution: Distribution | None
    world: Callable[[], World]
    audit: AuditLog
    past: PastCalls
    queue: ApprovalQueue
    blocks: BlockBook
    groups: GroupLocks
    quota: Quota
    hands: HandsOn
    note_run: Callable[[str, str, str, str], None]
    """Told how each run ended: sidecar, code (empty for success), message, stderr tail."""
    note_rules: Callable[[tuple[MatchedRule, ...]], None]
    """Told by which rules each call was judged."""
    desktop: Desktop
    seat: Callable[[], Seat]
    folders: ArtifactFolders
    instances: InstancePool
    upstreams: Upstreams
    approver_within: Callable[[int], Awaitable[bool]]
    """Whether a console can decide, waiting so many milliseconds at most for one to open."""
    stopped: Callable[[], bool]
    """Whether everything is stopped until a person releases it."""
    loops: LoopGuard
    publish: Publish
