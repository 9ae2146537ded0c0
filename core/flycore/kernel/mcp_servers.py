"""Keeps a session with each MCP server that is trusted and enabled, and hands calls a place at it.

One session an entry, for all callers, for as long as the kernel runs and the entry is what was trusted: the
list of tools is known by it, and a change is heard of. Over stdio it carries one call at a time.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import anyio
import anyio.abc
import anyio.to_thread
from anyio.abc import TaskGroup

from flycore.catalog.permission_limit import excess_permissions
from flycore.catalog.probes import ProbeFinding
from flycore.kernel.bus import Bus
from flycore.kernel.load_state import RootEnvironment
from flycore.kernel.probe_runner import seal_and_materialise
from flycore.kernel.refresh import StateRefresher
from flycore.model.catalog import SidecarView
from flycore.model.clock import Clock
from flycore.model.enums import Kind, PathState, ProbeState, ReasonCode, VersionState
from flycore.model.events import EventClass
from flycore.model.sidecar import DEFAULT_MAX_OUTPUT_BYTES, SidecarEntry
from flycore.model.stability import ProbeEvidence, Reason
from flycore.model.upstream import McpToolList, UnreadableTool
from flycore.registry.resolve import anchor_folder
from flycore.runners.child.spawn import SpawnSpec
from flycore.runners.mcp.call import McpCall, crash_outcome
from flycore.runners.mcp.connection_state import ConnectionState, StartError
from flycore.runners.mcp.session import McpSession, Started
from flycore.runners.one_shot import ProcessJsonJob, RunOutcome
from flycore.runners.output import OnEvent
from flycore.sandbox.environment import child_environment, declared_secrets
from flycore.sandbox.seals import SealBrokenError, seal_address, seal_by_name
from flycore.sandbox.secret_masks import Masks

FIRST_LIST_S = 20.0
"""How long a call to a tool that is not known waits for the first list of the server it may be of."""
MESSAGE_MARGIN = 4_194_304
"""Bytes a message may have beyond `maxOutputBytes`: files are written in base64, lists of tools are long."""
_RELEVANT_EVENTS = frozenset((EventClass.CATALOG, EventClass.SNAPSHOT))


@dataclass(eq=False, slots=True)
class _OpenSession:
    """A session under way."""

    entry: SidecarEntry
    session: McpSession
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)


@dataclass(frozen=True, slots=True)
class McpSlot:
    """The right of one call to ask one session."""

    session: McpSession | None
    asked: McpCall
    key: None = None

    async def call(self, job: ProcessJsonJob, on_event: OnEvent | None = None) -> RunOutcome:
        """Run the call; every end is an outcome."""
        if self.session is None:
            return crash_outcome("is not connected", None)
        return await self.session.call(job, self.asked, on_event)


class McpServers:
    """All sessions. While `stopped` says so none is started. `session` is the kernel's own, which the next
    one looks for."""

    def __init__(
        self,
        ground: RootEnvironment,
        clock: Clock,
        upkeep: StateRefresher,
        stopped: Callable[[], bool],
        session: str,
    ) -> None:
        self._ground, self._clock, self._upkeep = ground, clock, upkeep
        self._stopped, self._session = stopped, session
        self._kept: dict[str, _OpenSession] = {}
        self._group: TaskGroup | None = None

    async def run(
        self, bus: Bus, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Keep the sessions that the catalog asks for until cancelled; then none of them is left."""
        with bus.subscribe(_RELEVANT_EVENTS) as changes:
            async with anyio.create_task_group() as group:
                self._group = group
                self.review()
                task_status.started()
                async for _ in changes:
                    self.review()

    def review(self) -> None:
        """Start the sessions that are wanted, end those that are not."""
        if self._group is None:
            return
        wanted = {} if self._stopped() else {entry.id: entry for entry in self._wanted()}
        for sidecar, kept in tuple(self._kept.items()):
            now = wanted.get(sidecar)
            if now is None or now.digest != kept.entry.digest:
                kept.scope.cancel()
        for sidecar, entry in wanted.items():
            if sidecar not in self._kept:
                told = partial(self._record_status, entry)
                kept = _OpenSession(entry, McpSession(partial(self._start, entry), told))
                self._kept[sidecar] = kept
                self._group.start_soon(self._keep, kept)

    def retry(self, sidecar: str) -> None:
        """Connect to the server now, or look at its tools again."""
        if sidecar in self._kept:
            self._kept[sidecar].session.retry()

    async def ready(self, tool: str) -> None:
        """See executive.rooms.Upstreams."""
        sidecar = tool.rpartition(".")[0]
        view = self._upkeep.world.catalog.sidecar(sidecar)
        if view is None or view.entry.kind is not Kind.MCP or tool in self._upkeep.world.index:
            return
        self.review()  # the catalog may have said a moment ago that it is wanted
        kept = self._kept.get(sidecar)
        if kept is not None:
            with anyio.move_on_after(FIRST_LIST_S):
                await kept.session.settled.wait()
                await self._upkeep.flush_mcp_status()

    @asynccontextmanager
    async def hold(
        self, sidecar: str, asked: McpCall, waits: Callable[[str], None]
    ) -> AsyncIterator[McpSlot]:
        """See executive.rooms.Upstreams."""
        kept = self._kept.get(sidecar)
        if kept is None:
            yield McpSlot(None, asked)
            return
        async with kept.session.hold(waits):
            yield McpSlot(kept.session, asked)

    async def halt(self) -> None:
        """End every session at once; returns when nothing of them is left."""
        ending = tuple(self._kept.values())
        for kept in ending:
            kept.scope.cancel()
        with anyio.CancelScope(shield=True):
            for kept in ending:
                await kept.over.wait()

    async def _keep(self, kept: _OpenSession) -> None:
        try:
            with kept.scope:
                await kept.session.run()
        finally:
            if self._kept.get(kept.entry.id) is kept:
                del self._kept[kept.entry.id]
            kept.session.settled.set()
            kept.over.set()
        self.review()

    def _wanted(self) -> list[SidecarEntry]:
        """Entries in force that are trusted and may run, by the values of the files."""
        world, files = self._upkeep.world, self._upkeep.files
        found = []
        for view in world.catalog.sidecars:
            entry = files.registry.entry(view.id)
            if entry is not None and entry.digest == view.entry.digest and _may_run(view):
                over = excess_permissions(entry.permissions, files.settings.max_permissions)
                missing = declared_secrets(entry.permissions, self._ground.environ)[1]
                found += [entry] if not over and not missing else []
        return found

    async def _start(self, entry: SidecarEntry) -> Started:
        values, _ = declared_secrets(entry.permissions, self._ground.environ)
        most = max(DEFAULT_MAX_OUTPUT_BYTES, entry.max_output_bytes) * 2 + MESSAGE_MARGIN
        if entry.url:
            from flycore.runners.mcp.http import HttpTransport, fill_headers

            return Started(
                HttpTransport(entry.url, fill_headers(entry.headers, values), most),
                seal_address(entry).digest,
            )
        from flycore.runners.mcp.stdio import StdioTransport

        spec, program = await anyio.to_thread.run_sync(self._spawn, entry, values)
        return Started(StdioTransport(spec, most), program)

    def _spawn(self, entry: SidecarEntry, values: dict[str, str]) -> tuple[SpawnSpec, str]:
        """What is started, and the digest of its seal. Raises StartError."""
        files = self._upkeep.files
        program = files.programs.get(entry.id)
        current = files.registry.entry(entry.id)
        if program is None or current is None or current.digest != entry.digest:
            raise StartError(
                "the entry changed while its server was started", "it is started again by itself"
            )
        try:
            runs, seal = seal_and_materialise(self._ground, entry, program)
        except SealBrokenError as fault:
            raise StartError(f"the program cannot be sealed: {fault}", "find out what changes it") from fault
        name = f"{self._session}-mcp-{secrets.token_hex(6)}"
        spec = SpawnSpec(
            argv=runs.argv,
            cwd=str(anchor_folder(entry.cwd, files.registry)),
            env=child_environment(entry, runs, environ=self._ground.environ, secrets=values, call_id=name),
            call_id=name,
            limits=entry.limits,
        )
        return spec, seal_by_name(entry, program, seal).digest

    def _record_status(self, entry: SidecarEntry, contact: ConnectionState) -> None:
        masks = Masks(declared_secrets(entry.permissions, self._ground.environ)[0])
        listing = None if contact.listing is None else without_secrets(contact.listing, masks)
        self._upkeep.record_mcp_status(
            entry.id, entry.digest, finding_of(contact, masks, self._clock.now()), listing
        )


def _may_run(view: SidecarView) -> bool:
    """Trusted, enabled, leading somewhere, of a version that fits."""
    stability = view.stability
    return (
        view.entry.kind is Kind.MCP
        and view.trusted
        and view.entry.enabled
        and stability.path is PathState.RESOLVED
        and stability.version in (VersionState.COMPATIBLE, VersionState.UNKNOWN)
    )


def without_secrets(listing: McpToolList, masks: Masks) -> McpToolList:
    """The listing without the tools in whose words one of the secrets stands: catalogs are for everybody."""
    tools, refused = [], []
    for tool in listing.tools:
        if masks.text(tool.name) != tool.name or masks.json(tool.shown) != tool.shown:
            why = "has a secret of its entry in its name, description or schema"
            refused.append(UnreadableTool(name=masks.text(tool.name), why=why))
        else:
            tools.append(tool)
    masked = (
        UnreadableTool(name=masks.text(tool.name, cut=True), why=masks.text(tool.why, cut=True))
        for tool in listing.refused
    )
    return McpToolList(tools=tuple(tools), refused=(*masked, *refused), more=listing.more)


def finding_of(contact: ConnectionState, masks: Masks, now: float) -> ProbeFinding:
    """The probe's dimension: connected, connected with less than all, or not."""
    listing = contact.listing
    stderr_tail = masks.text(contact.stderr_tail, cut=True)
    if listing is None:
        reason = Reason(
            code=ReasonCode.PROBE_UNAVAILABLE,
            dimension="probe",
            message=masks.text(contact.fault, cut=True),
            remedy=masks.text(contact.remedy, cut=True),
        )
        evidence = ProbeEvidence(at=now, stderr_tail=stderr_tail, note="not connected")
        return ProbeFinding(state=ProbeState.UNAVAILABLE, reason=reason, evidence=evidence, fresh=True)
    count = len(listing.tools)
    note = f"connected: {masks.text(contact.server, cut=True)}, {count} tool{'' if count == 1 else 's'}"
    evidence = ProbeEvidence(at=now, duration_ms=contact.took_ms, stderr_tail=stderr_tail, note=note)
    if not listing.more:
        return ProbeFinding(state=ProbeState.HEALTHY, evidence=evidence, fresh=True)
    reason = Reason(
        code=ReasonCode.PROBE_DEGRADED,
        dimension="probe",
        message=f"{listing.more}: the rest is left out",
        remedy='name those that are needed in "tools" of the entry',
    )
    return ProbeFinding(state=ProbeState.DEGRADED, reason=reason, evidence=evidence, fresh=True)
