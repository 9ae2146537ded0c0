"""What is described around the root, kept true: read off the loop's thread, looked at again now and then.

Notices of a file system are not used: what is described lies in many small folders, some of them in the
person's home, and nothing runs because of it, so a moment later is soon enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup

from flycore.approval.tool_blocks import ToolBlockStore
from flycore.audit import events as audit_events
from flycore.catalog.diff import difference
from flycore.catalog.probes import ProbeCache, ProbeFinding, Prober, known_finding
from flycore.catalog.runtime import RuntimeTracker
from flycore.discovery.scan import Stamps, scan, search_roots, stamps
from flycore.kernel.bus import Recorder
from flycore.kernel.effective_entries import EffectiveFiles
from flycore.kernel.load_state import (
    Files,
    Observations,
    RootEnvironment,
    blocked_tools,
    build_state,
    gc_paused,
)
from flycore.kernel.mcp_status import McpStatus, McpStatusStore, findings_of
from flycore.kernel.probe_runner import probe_spawn, probe_work
from flycore.kernel.registry_edits import AcceptedEntries, RegistryEdit, TrustedRegistry
from flycore.model.approval import Outcome
from flycore.model.catalog import Catalog, SidecarView
from flycore.model.described import Described, Import, SourceKind
from flycore.model.enums import Kind, PathState, ProbeState
from flycore.model.events import EventClass
from flycore.model.json import JsonObject
from flycore.model.question import TrustItem
from flycore.model.sidecar import SidecarEntry
from flycore.model.upstream import McpToolList
from flycore.pipeline.state import CurrentState, RootState
from flycore.policy.evaluate import Policy
from flycore.registry.paths import RootPaths
from flycore.registry.watch import FileStamps, file_stamps, watch_files

RESCAN_SECONDS = 1.0


class SourceWatcher:
    """`described` is replaced whole and may be read at any time."""

    def __init__(self, places: RootPaths, environ: Mapping[str, str]) -> None:
        self._grounds = search_roots(places, environ)
        self._seen: Stamps = ()
        self.described: tuple[Described, ...] = ()

    def read(self) -> bool:
        """Read what may have changed since the last time; whether it has."""
        seen = stamps(self._grounds)  # taken first, so that no change falls between
        if seen == self._seen and self.described:
            return False
        described = scan(self._grounds)
        changed = described != self.described
        self._seen, self.described = seen, described
        return changed

    async def find_import(self, path: str, name: str) -> Import | None:
        """What importing that server would write, by its file as it is at this moment."""
        await anyio.to_thread.run_sync(self.read)
        found = (item for item in self.described if item.kind is SourceKind.MCP_SERVER)
        return next((item.offer for item in found if (item.path, item.id) == (path, name)), None)

    async def watch(self, changed: Callable[[], None]) -> None:
        """Read it again for ever, and say when it is another."""
        while True:
            await anyio.sleep(RESCAN_SECONDS)
            if await anyio.to_thread.run_sync(self.read):
                changed()


# How the keeping of the world is told: lines of the log, events on the bus.


MOST_NAMES = 200
"""Changed names in one event."""


@dataclass(frozen=True, slots=True)
class ChangePublisher:
    """Writes and publishes what another world means for whoever watches the policy or the catalog."""

    recorder: Recorder

    def publish_policy(self, before: Policy, now: Policy) -> None:
        """Another policy holds: said once calls are judged by it, not before."""
        if before.version != now.version or before.ok != now.ok:
            files = tuple(layer.file for layer in now.layers)
            fields = audit_events.policy_changed(now.version, files, problems=len(now.diagnostics))
            self.recorder.record(audit_events.POLICY_CHANGED, fields)
            self.recorder.publish(EventClass.APPROVAL, "policy.changed", {"ok": now.ok})

    def publish_catalog(self, before: Catalog, now: Catalog, changed: tuple[str, ...]) -> None:
        """The catalog shows something else, or the same by another look."""
        if not changed:
            if before.sidecars != now.sidecars:
                self.recorder.publish(EventClass.SNAPSHOT, "evidence.changed", {})
            return
        self.recorder.record(audit_events.SNAPSHOT_CHANGED, audit_events.snapshot_changed(before, changed))
        names: JsonObject = {"version": now.version, "names": list(changed[:MOST_NAMES])}
        self.recorder.publish(EventClass.CATALOG, "catalog.changed", names)


# Keeps the world true: reloads changed files, probes sidecars, notices time, and says what changed.


FIRST_VERSION = 1
"""Of the catalog; it grows by one whenever the catalog shows something else."""
GATHER_SECONDS = 0.05
"""Findings that come within this time make one new catalog."""
REPROBE_SECONDS = 30.0
"""Between two looks at a sidecar that was not well."""


@dataclass(frozen=True, slots=True)
class StateSources:
    """Everything that a world is made of: what was read, and what was found out."""

    ground: RootEnvironment
    trusting: TrustedRegistry
    """The files as they are written, and what of them is trusted."""
    describing: SourceWatcher
    blocks: ToolBlockStore
    runtime: RuntimeTracker

    def build(
        self,
        held: EffectiveFiles,
        probes: Mapping[str, ProbeFinding],
        heard: Mapping[str, McpStatus],
        now: float,
    ) -> RootState:
        """The world of these files; `probes` and what was `heard` of MCP servers by sidecar."""
        offers = self.trusting.offers(held)
        registry = held.files.registry
        seen = Observations(
            trusted=held.trusted,
            probes={**probes, **findings_of(heard, registry)},
            runtime={entry.id: self.runtime.finding(entry.id, now) for entry in registry.entries},
            diagnostics=(*self.trusting.diagnostics, *self.blocks.diagnostics),
            described=self.describing.described,
            changed=held.changed,
            offers=offers,
            blocked=blocked_tools(registry, self.blocks, offers),
        )
        return build_state(self.ground, held.files, seen, version=FIRST_VERSION, now=now)


@dataclass(frozen=True, slots=True)
class LoadedState:
    """The first world of a kernel, with what it was read from."""

    sources: StateSources
    stamps: FileStamps
    files: Files
    pending: tuple[TrustItem, ...]
    remembered: Mapping[str, ProbeFinding]
    """Answers of earlier kernels, shown until the sidecar has answered this one."""
    world: RootState


@gc_paused()
def load_state(ground: RootEnvironment, blocks: ToolBlockStore, cache: ProbeCache, now: float) -> LoadedState:
    """Read everything for the first time, without starting any process."""
    stamps = file_stamps(ground.places)  # before the files, so that no change falls between
    describing = SourceWatcher(ground.places, ground.environ)
    sources = StateSources(ground, TrustedRegistry(ground), describing, blocks, RuntimeTracker())
    describing.read()
    held, pending = sources.trusting.effective({}, now)
    remembered: dict[str, ProbeFinding] = {}
    for entry in held.files.registry.entries:
        if entry.id in held.trusted and entry.kind is not Kind.MCP and _is_resolved(held.files, entry.id):
            known = known_finding(cache, probe_work(ground, held.files, entry))
            remembered.update({entry.id: known} if known is not None else {})
    world = sources.build(held, remembered, {}, now)
    return LoadedState(sources, stamps, held.files, pending, remembered, world)


class StateRefresher:
    """Owns the world of one kernel. `world` is replaced whole and may be read at any time; `files` are
    those it rests on, with the values of the entries that are in force."""

    def __init__(
        self,
        loaded: LoadedState,
        recorder: Recorder,
        cache: ProbeCache,
        session: str,
        stopped: Callable[[], bool],
    ) -> None:
        """`session` is what the call ids of probes begin with; while `stopped` says so no probe starts."""
        self.state = CurrentState(loaded.world)
        self.files = loaded.files
        self._sources = loaded.sources
        self._ground = loaded.sources.ground
        self._trusting = loaded.sources.trusting
        self._runtime = loaded.sources.runtime
        self.describing = loaded.sources.describing
        self._clock = recorder.clock
        self._recorder = recorder
        self._telling = ChangePublisher(recorder)
        self._prober = Prober(
            probe_spawn(self._ground, lambda: self.files, session), cache, recorder.clock.now
        )
        self._stopped = stopped
        self._probes: dict[str, ProbeFinding] = {}
        self._remembered = dict(loaded.remembered)
        self._changed = anyio.Event()
        self._reload = False
        self._renewing = anyio.Lock()
        """One world at a time is made, and no trust given meanwhile."""
        self._pending = loaded.pending
        self._hearing = McpStatusStore()
        self._seen = loaded.stamps
        self._wanted: set[str] = set()
        self._probing: set[str] = set()
        self._group: TaskGroup | None = None
        self._stop = anyio.Event()
        self._queue_probes()

    @property
    def world(self) -> RootState:
        """What the catalog shows and calls find now."""
        return self.state.world

    async def run(self) -> None:
        """Keep the world true until stopped."""
        async with anyio.create_task_group() as group:
            self._group = group
            group.start_soon(self._watch)
            group.start_soon(self.describing.watch, self._note_change)
            group.start_soon(self._refresh_on_change)
            group.start_soon(self._probe_unwell)
            self.start_probes()
            await self._stop.wait()
            group.cancel_scope.cancel()

    def stop(self) -> None:
        """End `run` soon. The watcher's thread hears this; cancelling alone would wait for its next look."""
        self._stop.set()

    def pending_trust(self) -> tuple[TrustItem, ...]:
        """Entries that wait for trust, described by what they would run."""
        return self._pending

    async def trust(self, accepted: AcceptedEntries, by: str) -> Outcome:
        """Trust entries that still are what was shown; `by` goes to the log."""
        return await self.apply_edit(lambda trusting, now: trusting.accept(accepted, now, by))

    async def revoke_trust(self, by: str) -> Outcome:
        """Trust nothing of the project any longer; `by` goes to the log. Calls that run go on."""
        return await self.apply_edit(lambda trusting, _: trusting.revoke(by))

    async def apply_edit(self, wish: RegistryEdit) -> Outcome:
        """What became of a person's wish. Once this returns, calls find it so."""
        async with self._renewing:
            now = self._clock.now()
            outcome, lines = await anyio.to_thread.run_sync(wish, self._trusting, now)
            for event, fields in lines:
                self._recorder.record(event, fields)
            self._note_change()  # whoever answered may leave before the world stands
            await self._rebuild()
            self._recorder.publish(EventClass.SNAPSHOT, "trust.changed", {})
        return outcome

    def probe_again(self, sidecar: str) -> bool:
        """Ask a sidecar, cached or not; its finding comes with a new catalog. What is not trusted is left
        alone; where a program was missing, it is looked for again. False where no probe is for it, as for
        an MCP server."""
        if self._probeable_entry(sidecar) is None:
            self.reload()
            return False
        self._prober.forget(sidecar)
        self._wanted.add(sidecar)
        self.start_probes()
        return True

    def record_run(self, sidecar: str, code: str, message: str, stderr_tail: str) -> None:
        """A run has ended; the catalog follows where the runtime dimension moved."""
        now = self._clock.now()
        before = self._runtime.finding(sidecar, now).state
        self._runtime.note(sidecar, code, now, message=message, stderr_tail=stderr_tail)
        if self._runtime.finding(sidecar, now).state is not before:
            self._note_change()

    def record_mcp_status(
        self, sidecar: str, entry: str, found: ProbeFinding, listing: McpToolList | None
    ) -> None:
        """An MCP server was reached or not, by the entry of that digest; `listing` is what it offers."""
        if not _is_current(self.files, sidecar, entry):
            return
        self._hearing.note(sidecar, entry, found, listing)
        if listing is not None:
            self._runtime.note(sidecar, "", self._clock.now())
        self._note_change()

    def _build(self, held: EffectiveFiles, heard: Mapping[str, McpStatus]) -> RootState:
        return self._sources.build(held, {**self._remembered, **self._probes}, heard, self._clock.now())

    def reload(self) -> None:
        """Read the files again: this kernel has changed one of them, or what is blocked."""
        self._reload = True
        self._note_change()

    async def _watch(self) -> None:
        async for _ in watch_files(self._ground.places, self._seen, self._stop):
            self.reload()

    async def _probe_unwell(self) -> None:
        """Ask sidecars that were not well again from time to time: what is behind them may be back."""
        while True:
            await anyio.sleep(REPROBE_SECONDS)
            self._wanted |= {sid for sid, found in self._probes.items() if found.reason is not None}
            self.start_probes()

    def _note_change(self) -> None:
        self._changed.set()

    async def _refresh_on_change(self) -> None:
        """Make a new world whenever something changed, off the loop's thread, one at a time."""
        while True:
            with anyio.move_on_after(_until_ready(self._runtime, self.files, self._clock.now())):
                await self._changed.wait()
            await anyio.sleep(GATHER_SECONDS)
            self._changed = anyio.Event()
            await self.refresh()

    async def refresh(self) -> None:
        """Make the world anew. Once this returns, calls find what this kernel has changed in the files."""
        async with self._renewing:
            if self._reload:
                self._reload = False
                await anyio.to_thread.run_sync(self._trusting.read)
            await self._rebuild()

    async def flush_mcp_status(self) -> None:
        """Once this returns, the catalog shows whatever MCP servers had said before."""
        async with self._renewing:
            if self._hearing.has_unshown:
                await self._rebuild()

    async def _rebuild(self) -> None:
        """Make the world anew from the files as they were read. Only while `_renewing` is held."""
        before = self.files
        heard, now = self._hearing.now, self._clock.now()
        held, pending = await anyio.to_thread.run_sync(self._trusting.effective, heard, now)
        self.files = held.files
        for sidecar in _changed_sidecars(before, held.files):  # its answers say nothing of what it is now
            self._probes.pop(sidecar, None)
            self._remembered.pop(sidecar, None)
        world = await anyio.to_thread.run_sync(self._build, held, heard)
        self._hearing.mark_shown(heard, held.files.registry)
        self._pending = pending
        self._replace(world)
        self._telling.publish_policy(before.policy, self.files.policy)

    def _replace(self, new: RootState) -> None:
        before = self.world.catalog
        changed = difference(before, new.catalog)
        version = before.version + bool(changed)
        self.state.replace(replace(new, catalog=msgspec.structs.replace(new.catalog, version=version)))
        self._telling.publish_catalog(before, self.world.catalog, changed)
        self._queue_probes()
        self.start_probes()

    def _queue_probes(self) -> None:
        """Everything that may be asked and has not been."""
        may = {view.id for view in self.world.catalog.sidecars if _may_be_probed(view)}
        self._wanted |= may - self._probes.keys() - self._probing

    def _probeable_entry(self, sidecar: str) -> SidecarEntry | None:
        """The entry in force now, where that very value is trusted and leads to a program."""
        view, entry = self.world.catalog.sidecar(sidecar), self.files.registry.entry(sidecar)
        if view is None or entry is None or not _is_resolved(self.files, sidecar):
            return None
        return entry if _may_be_probed(view) and view.entry.digest == entry.digest else None

    def start_probes(self) -> None:
        """Start what is wanted, unless everything is held back."""
        if self._group is None or self._stopped():
            return
        busy = frozenset(self._probing)
        for sidecar in sorted(self._wanted - busy):
            self._probing.add(sidecar)
            self._group.start_soon(self._probe, sidecar)
        self._wanted &= busy  # asked for while it is being asked: once more when that is done

    async def _probe(self, sidecar: str) -> None:
        try:
            if (entry := self._probeable_entry(sidecar)) is None:
                return
            self._keep_finding(entry, await self._prober.probe(probe_work(self._ground, self.files, entry)))
        finally:
            self._probing.discard(sidecar)
        self._note_change()

    def _keep_finding(self, entry: SidecarEntry, finding: ProbeFinding) -> None:
        """What was found, unless the entry is another by now: then it says nothing of that one."""
        if not _is_current(self.files, entry.id, entry.digest):
            return
        self._probes[entry.id] = finding
        if finding.state is ProbeState.HEALTHY:
            self._runtime.note(entry.id, "", self._clock.now())


def _until_ready(runtime: RuntimeTracker, files: Files, now: float) -> float:
    """Seconds until time alone changes the catalog: a failed sidecar counts as ready again for lack of
    calls, or a policy rule expires."""
    ready = runtime.next_change(now)
    moments = [moment for moment in files.policy.moments if moment > now]
    if ready is not None:
        moments.append(ready)
    return max(0.0, min(moments) - now) if moments else float("inf")


def _changed_sidecars(before: Files, after: Files) -> set[str]:
    """Sidecars whose entry is another, new or gone."""
    old, new = ({entry.id: entry.digest for entry in files.registry.entries} for files in (before, after))
    return {sidecar for sidecar in old.keys() | new.keys() if old.get(sidecar) != new.get(sidecar)}


def _is_current(files: Files, sidecar: str, digest: str) -> bool:
    """Whether the sidecar's entry is still the one of that digest."""
    entry = files.registry.entry(sidecar)
    return entry is not None and entry.digest == digest


def _is_resolved(files: Files, sidecar: str) -> bool:
    """Whether the sidecar's command leads to a program."""
    program = files.programs.get(sidecar)
    return program is not None and program.state is PathState.RESOLVED


def _may_be_probed(view: SidecarView) -> bool:
    """Trusted, and everything before the sandbox in order; an MCP server's session is its own probe."""
    return view.trusted and view.stability.sandbox is not None and view.entry.kind is not Kind.MCP
