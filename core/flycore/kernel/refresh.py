"""The refresher of a kernel's state: it reads changed files, probes sidecars, rebuilds the catalog, and
publishes what changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup

from flycore.catalog.diff import difference
from flycore.catalog.executable_tools import file_aliases
from flycore.catalog.observations import NO_OBSERVATION, Answer, Observations
from flycore.catalog.prober import Prober
from flycore.catalog.probes import ProbeCache, ProbeFinding, known_finding
from flycore.catalog.reasons import permit_digest
from flycore.discovery.tool_layers import watched_tools
from flycore.kernel.accepted_policy import AcceptedPolicy
from flycore.kernel.bus import Recorder
from flycore.kernel.change_publisher import ChangePublisher
from flycore.kernel.effective_entries import effective_files
from flycore.kernel.load_state import probe_work
from flycore.kernel.package_probes import record_first_probe
from flycore.kernel.probe_runner import probe_spawn
from flycore.kernel.probe_schedule import (
    NOT_PROBED,
    look_around,
    may_be_probed,
    outdated,
    probed_sidecars,
    programs_moved,
)
from flycore.kernel.registry_edits import AcceptedEntries, RegistryEdit, TrustedRegistry
from flycore.kernel.schema_answers import SchemaCache, note_cached
from flycore.kernel.schema_asker import READY_S, SchemaAsker
from flycore.kernel.source_watcher import SourceWatcher
from flycore.model.approval import Outcome
from flycore.model.enums import Kind
from flycore.model.events import EventClass
from flycore.model.json import JsonObject
from flycore.model.question import TrustItem
from flycore.model.sidecar import SidecarEntry
from flycore.pipeline.context import CurrentState, Files, RootEnvironment, RootState
from flycore.policy.looser_rules import LooserRules
from flycore.registry.stamps import FileStamps, FurtherFiles, Stamp, file_stamps, stamp_of
from flycore.registry.watch import watch_files
from flysafe.process_memory import gc_paused
from flysafe.spare_descriptors import NONE_LEFT

GATHER_SECONDS = 0.05
"""Findings within this time make one new catalog."""
NONE_LEFT_SECONDS = 1.0
"""When the files are read again that no descriptor was left for."""
SETTLE_SECONDS = 10.0
"""How long a command waits for the probes of its kernel."""
REPROBE_SECONDS = 30.0
"""The time between two looks at which answers no longer hold. The catalog follows within it."""


def further_files(environment: RootEnvironment) -> FurtherFiles:
    """Return what finds the files of discovered tools and the records of packages, for the watcher."""
    places = environment.places
    records = (places.package_records_dir, places.user_package_records_dir)

    def found() -> tuple[tuple[Path, Stamp], ...]:
        stamps = ((folder, stamp_of(folder)) for folder in records)
        return (*watched_tools(places, environment.environ), *stamps)

    return found


class LoadedState(msgspec.Struct, frozen=True):
    """The first state of a kernel, and what the next ones are built from."""

    environment: RootEnvironment
    registry: TrustedRegistry
    """The files as they are written, and the trust in their entries."""
    source_watcher: SourceWatcher
    observations: Observations
    stamps: FileStamps
    root_state: RootState
    pending: tuple[TrustItem, ...]


@gc_paused()
def load_state(environment: RootEnvironment, cache: ProbeCache, now: float) -> LoadedState:
    """Read everything for the first time. Starts no process but the trial of the sandbox."""
    # before the files, so that a change while they are read is noticed
    stamps = file_stamps(environment.places, further_files(environment))
    source_watcher = SourceWatcher(environment.places, environment.environ)
    registry = TrustedRegistry(environment)
    observations = Observations(environment.places.observed_file)
    source_watcher.read()
    registry.policy.start()
    note_cached(registry.declared, SchemaCache(environment.places), observations)
    files = effective_files(environment, registry.declared, registry.trust.entries)
    for entry in files.registry.entries:
        if entry.id in files.trusted and entry.kind not in NOT_PROBED and files.is_resolved(entry.id):
            finding = known_finding(cache, probe_work(environment, files, entry))
            if finding is not None:
                programs = files.resolutions(entry.id)
                observations.note(entry, Answer(finding=finding, programs=programs, remembered=True))
    state, pending = registry.state(observations.current, now, source_watcher.described)
    observations.settle(observations.current, files.registry, files.resolutions, now)
    return LoadedState(environment, registry, source_watcher, observations, stamps, state, pending)


class StateRefresher:
    """The owner of one kernel's state.

    `root_state` is replaced as a whole and may be read at any time.
    """

    def __init__(
        self,
        loaded: LoadedState,
        recorder: Recorder,
        cache: ProbeCache,
        session: str,
        panic_active: Callable[[], bool],
    ) -> None:
        """Call ids of probes begin with `session`; no probe starts while `panic_active` returns True."""
        self.state = CurrentState(loaded.root_state)
        self._environment = loaded.environment
        self._registry = loaded.registry
        self.observations = loaded.observations
        self.observations.on_news = self._note_change
        self.source_watcher = loaded.source_watcher
        self._clock = recorder.clock
        self._recorder = recorder
        self._publisher = ChangePublisher(recorder)
        self._prober = Prober(
            probe_spawn(
                self._environment,
                lambda: self.files,
                session,
                lambda secrets: self.root_state.masks_with(secrets),
            ),
            cache,
            recorder.clock.now,
        )
        self._panic_active = panic_active
        self._changed = anyio.Event()
        self._reload = False
        self._rebuild_lock = anyio.Lock()
        """Held while a state is built, so that no trust changes meanwhile and no older state wins."""
        self._pending = loaded.pending
        self._schemas = SchemaAsker(
            self._environment, session, self.observations, panic_active, self._clock.now
        )
        self._stamps = loaded.stamps
        self._probes_due: set[str] = set()
        self._probing: set[str] = set()
        self._probe_ended = anyio.Event()
        """Is set when a probe ends; there is a new event for the next one."""
        self._group: TaskGroup | None = None
        self._stop = anyio.Event()
        self.waiting_rules = LooserRules()
        """The looser rules of the policy files that wait for a person."""
        self._publisher.record_bundles((), self.files.registry.bundles)
        self._note_policy()
        self._queue_probes()
        self._schemas.review(self.files, self.root_state)

    @property
    def root_state(self) -> RootState:
        """The state that the catalog shows and that calls use now."""
        return self.state.latest

    @property
    def files(self) -> Files:
        """The files of that state, with the entries in force."""
        return self.state.latest.files

    async def run(self) -> None:
        """Keep the state current until `stop`."""
        async with anyio.create_task_group() as group:
            self._group = group
            group.start_soon(self._watch)
            group.start_soon(self.source_watcher.watch, self._note_change)
            group.start_soon(self._refresh_on_change)
            group.start_soon(self._probe_outdated)
            group.start_soon(self._schemas.run)
            self.start_probes()
            await self._stop.wait()
            group.cancel_scope.cancel()

    def stop(self) -> None:
        """End `run` soon."""
        # The file watcher waits in a thread, which this event wakes; a cancellation would wait for it.
        self._stop.set()

    def pending_trust(self) -> tuple[TrustItem, ...]:
        """Return the entries that wait for trust, with what they would run."""
        return self._pending

    @property
    def accepted_policy(self) -> AcceptedPolicy:
        """The policy rules that count, to note the changes of consoles there."""
        return self._registry.policy

    def _note_policy(self) -> None:
        """Log what is new of the policy, and publish which rules wait."""
        for event, fields in self._registry.policy.take_lines():
            self._recorder.record(event, fields, sync=True)
        before, self.waiting_rules = self.waiting_rules, self._registry.policy.waiting
        if before.key != self.waiting_rules.key:
            payload: JsonObject = {"ok": self.root_state.files.policy.ok}
            self._recorder.publish(EventClass.APPROVAL, "policy.changed", payload)

    async def accept_rules(self, shown: str, by: str) -> Outcome:
        """Let the waiting rules count that have that key; `by` is for the log."""
        return await self.apply_edit(lambda registry, _: registry.accept_policy(shown, by))

    async def trust(self, accepted: AcceptedEntries, by: str) -> Outcome:
        """Trust the entries that are still as they were shown; `by` is for the log."""
        return await self.apply_edit(lambda trusting, now: trusting.accept(accepted, now, by))

    async def create_tool(self, name: str, definition: JsonObject | str, creator: str) -> Outcome:
        """Keep a tool that an agent made for a person's review. It runs no sooner."""
        return await self.apply_edit(lambda registry, _: registry.create_tool(name, definition, creator))

    async def revoke_trust(self, by: str) -> Outcome:
        """Revoke all trust in the project's entries; `by` is for the log. Running calls go on."""
        return await self.apply_edit(lambda trusting, _: trusting.revoke(by))

    async def apply_edit(self, edit: RegistryEdit) -> Outcome:
        """Make a person's edit. When this returns, calls already use the new state."""
        async with self._rebuild_lock:
            now = self._clock.now()
            outcome, lines = await anyio.to_thread.run_sync(edit, self._registry, now)
            for event, fields in lines:
                self._recorder.record(event, fields)
            # If the client leaves now, the rebuild below is cancelled. The noted change makes another one.
            self._note_change()
            await self._rebuild()
            self._recorder.publish(EventClass.SNAPSHOT, "trust.changed", {})
        return outcome

    def probe_again(self, sidecar: str) -> bool:
        """Probe a sidecar without the cache, or ask an executable for its schema again; its finding comes
        with a new catalog. The files are read again, which also looks for its programs and its secrets.

        Return False if it cannot be probed: it is an MCP server, not trusted, or its program is missing.
        """
        entry = self.files.registry.entry(sidecar)
        self.observations.forget_unavailable(sidecar)
        self._environment.keyring.forget_missing()
        self.reload()
        if entry is not None and entry.kind is Kind.EXECUTABLE:
            self._schemas.ask_again(sidecar)
            return sidecar in self.root_state.files.trusted
        if self._probeable_entry(sidecar) is None:
            return False
        self._prober.forget(sidecar)
        self._probes_due.add(sidecar)
        self.start_probes()
        return True

    async def permit(self, sidecar: str, shown: str, by: str) -> Outcome:
        """Add the permissions that the sidecar's calls lacked, as they were shown; `by` is for the log."""
        entry = self.files.registry.entry(sidecar)
        refusals = None
        if entry is not None and (seen := self.observations.current.get(sidecar)) is not None:
            found = seen.refusals.values() if seen.is_of(entry) else ()
            refusals = next((item for item in found if permit_digest(entry, item) == shown), None)
        if entry is None or refusals is None:
            return Outcome(accepted=False, why_not="what it lacks has changed since it was shown")
        declared = entry
        return await self.apply_edit(lambda registry, _: registry.permit(declared, refusals, by))

    def reload(self) -> None:
        """Have the files read again soon, after a file or the blocked tools changed."""
        self._reload = True
        self._note_change()

    async def _watch(self) -> None:
        further = further_files(self._environment)
        async for _ in watch_files(self._environment.places, self._stamps, self._stop, further):
            self.reload()

    async def _probe_outdated(self) -> None:
        """From time to time, look for programs that appeared or are gone, and probe the sidecars again whose
        answers may no longer hold."""
        while True:
            await anyio.sleep(REPROBE_SECONDS)
            if await anyio.to_thread.run_sync(programs_moved, self._environment, self.files):
                self.reload()
            probed = probed_sidecars(self._environment, self.files, self.observations.current)
            due = await anyio.to_thread.run_sync(outdated, probed, self._clock.now())
            for sidecar in due:
                self._prober.forget(sidecar)
            self._probes_due |= due
            self.start_probes()

    def _note_change(self) -> None:
        self._changed.set()

    async def _refresh_on_change(self) -> None:
        """Build a new state whenever something changed."""
        while True:
            with anyio.move_on_after(_until_ready(self.observations, self.files, self._clock.now())):
                await self._changed.wait()
            await anyio.sleep(GATHER_SECONDS)
            # A new event before the refresh: a change during it must cause another one.
            self._changed = anyio.Event()
            try:
                await self.refresh()
            except OSError as error:
                if error.errno not in NONE_LEFT:
                    raise
                # The state that was built last holds on, until the files can be opened again.
                self.reload()
                await anyio.sleep(NONE_LEFT_SECONDS)

    async def refresh(self) -> None:
        """Build a new state. When this returns, calls use what this kernel changed in the files."""
        async with self._rebuild_lock:
            if self._reload:
                self._reload = False  # before reading: a change while the files are read sets it again
                await anyio.to_thread.run_sync(self._registry.read)
            await self._rebuild()

    async def settle(self, *, probes: bool) -> None:
        """Read the files again; with `probes`, wait until the probes that are due have ended and executables
        have said what they offer, for a bounded time."""
        await anyio.to_thread.run_sync(self.source_watcher.read)
        self.reload()
        await self.refresh()
        if not probes:
            return
        with anyio.move_on_after(SETTLE_SECONDS):
            while self._probing or (self._probes_due and not self._panic_active()):
                await self._probe_ended.wait()
            await self._schemas.ready("")
        await self.refresh()

    async def flush_observations(self) -> None:
        """Wait until the catalog shows everything that was noted so far."""
        async with self._rebuild_lock:
            if self.observations.has_unshown:
                await self._rebuild()

    async def _rebuild(self) -> None:
        """Build a new state from the files that were read last. The caller holds `_rebuild_lock`."""
        before = self.files
        shown, now = self.observations.current, self._clock.now()
        described = self.source_watcher.described
        state, pending = await anyio.to_thread.run_sync(self._registry.state, shown, now, described)
        files = state.files
        self.observations.settle(shown, files.registry, files.resolutions, self._clock.now())
        self._pending = pending
        self._replace(state)
        self._publisher.record_bundles(before.registry.bundles, self.files.registry.bundles)
        self._publisher.publish_policy(before.policy, self.files.policy)
        if before.packages != self.files.packages:
            self._recorder.publish(EventClass.PACKAGE, "packages.changed", {})
        self._note_policy()

    def _replace(self, new: RootState) -> None:
        before = self.root_state.catalog
        # The version counts what a client can see. New evidence for the same states is another event.
        changed = difference(before, new.catalog)
        version = before.version + bool(changed)
        self.state.replace(replace(new, catalog=msgspec.structs.replace(new.catalog, version=version)))
        self._publisher.publish_catalog(before, self.root_state.catalog, changed)
        self._queue_probes()
        self.start_probes()
        self._schemas.review(self.files, self.root_state)

    async def schemas_ready(self, tool: str) -> None:
        """Wait until the executables that may offer the tool have said so, for a bounded time."""
        state = self.root_state
        view = state.index.get(tool)
        offering = None if view is None else state.entries.get(view.sidecar or "")
        if offering is None or offering.kind is Kind.EXECUTABLE:
            with anyio.move_on_after(READY_S):
                await self._schemas.ready("" if offering is None else offering.id)
                await self.flush_observations()

    def tool_name(self, tool: str) -> str:
        """Return the name of the tool that a caller means: its own, or another one where the caller named the
        file of an executable."""
        state = self.root_state
        return tool if tool in state.index else file_aliases(state.registry).get(tool, tool)

    def _queue_probes(self) -> None:
        """Queue each sidecar that may be probed and was not yet."""
        probeable = {
            view.id for view in self.root_state.catalog.sidecars if may_be_probed(self._environment, view)
        }
        probed = {sidecar for sidecar, seen in self.observations.current.items() if seen.is_probed}
        self._probes_due |= probeable - probed - self._probing

    def _probeable_entry(self, sidecar: str) -> SidecarEntry | None:
        """Return the entry in force, if that very value is trusted and its program exists."""
        view, entry = self.root_state.catalog.sidecar(sidecar), self.files.registry.entry(sidecar)
        if view is None or entry is None or not self.files.is_resolved(sidecar):
            return None
        return entry if view.entry.digest == entry.digest and may_be_probed(self._environment, view) else None

    def start_probes(self) -> None:
        """Start the queued probes, unless everything is stopped."""
        if self._group is None or self._panic_active():
            return
        busy = frozenset(self._probing)
        for sidecar in sorted(self._probes_due - busy):
            self._probing.add(sidecar)
            self._group.start_soon(self._probe, sidecar)
        self._probes_due &= busy  # queued while its probe runs: probed once more after it

    def forget_probe(self, sidecar: str) -> None:
        """Have the sidecar asked anew by the next probe, though an answer is known."""
        self._prober.forget(sidecar)

    async def finding_of(self, sidecar: str) -> ProbeFinding | None:
        """Probe a sidecar, or wait for the probe that runs, and return what it found; None where it cannot be
        probed now."""
        entry = self.files.registry.entry(sidecar)
        view = self.root_state.catalog.sidecar(sidecar)
        if self._panic_active() or entry is None or view is None or entry.kind in NOT_PROBED:
            return None
        # The state of a version that has to be rolled back does not matter here: a person asks for it.
        if not view.trusted or view.entry.digest != entry.digest or not self.files.is_resolved(sidecar):
            return None
        return await self._prober.probe(probe_work(self._environment, self.files, entry))

    async def _probe(self, sidecar: str) -> None:
        try:
            if (entry := self._probeable_entry(sidecar)) is None:
                return
            files = self.files
            work = probe_work(self._environment, files, entry)
            answer, now = self.observations.current.get(sidecar, NO_OBSERVATION).answer, self._clock.now()
            before = answer.surroundings if answer is not None else None
            surroundings = await anyio.to_thread.run_sync(look_around, work, before, now)
            finding = await self._prober.probe(work)
            programs = files.resolutions(sidecar)
            self.observations.note(
                entry, Answer(finding=finding, programs=programs, surroundings=surroundings)
            )
            if entry.package_id is not None:
                await self._record_first_probe(entry, finding)
        except OSError as error:
            if error.errno not in NONE_LEFT:
                raise
            self._probes_due.add(sidecar)
            return  # without a change, which would ask at once: it is asked with those that are not healthy
        finally:  # also when cancelled: a sidecar that stays marked would never be probed again
            self._probing.discard(sidecar)
            # An event cannot be cleared, so a new one replaces it for the next wait.
            self._probe_ended.set()
            self._probe_ended = anyio.Event()
        self._note_change()

    async def _record_first_probe(self, entry: SidecarEntry, finding: ProbeFinding) -> None:
        """Record the first answer of a package's version. One that does not answer is hidden."""
        places = self._environment.places
        if await anyio.to_thread.run_sync(record_first_probe, places, self.files.packages, entry, finding):
            self.reload()


def _until_ready(observations: Observations, files: Files, now: float) -> float:
    """Return the seconds until the catalog changes by time alone: a failed sidecar without further calls
    counts as ready again, or a policy rule expires."""
    ready = observations.next_change(now)
    moments = [moment for moment in files.policy.expiry_times if moment > now]
    if ready is not None:
        moments.append(ready)
    return max(0.0, min(moments) - now) if moments else float("inf")
