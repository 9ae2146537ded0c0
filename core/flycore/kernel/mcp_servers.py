"""The sessions with MCP servers: one for each trusted and enabled entry, shared by all callers.

A session lasts as long as the kernel runs and the entry stays as it was trusted. It gives the server's tools
and notices when they change. It carries several calls at a time.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import anyio
import anyio.abc
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup

from flycore.catalog.mcp_capabilities import REQUEST_NAMES
from flycore.catalog.observations import Answer
from flycore.catalog.probes import ProbeFinding
from flycore.catalog.snapshot import lowest_minimum
from flycore.kernel.bus import Bus
from flycore.kernel.load_state import RootEnvironment
from flycore.kernel.probe_runner import seal_and_materialise
from flycore.kernel.refresh import StateRefresher
from flycore.kernel.samplings import Samplings
from flycore.kernel.server_questions import ServerQuestions
from flycore.model.catalog import SidecarView
from flycore.model.clock import Clock
from flycore.model.enums import Kind, Level, PathState, ProbeState, ReasonCode, VersionState
from flycore.model.events import EventClass
from flycore.model.json import JsonObject
from flycore.model.login import Login
from flycore.model.sidecar import DEFAULT_MAX_OUTPUT_BYTES, SidecarEntry
from flycore.model.stability import ProbeEvidence, Reason
from flycore.model.upstream import McpLists, McpToolList, UnreadableTool
from flycore.pipeline.confine import Confining, StartedProgram, protected_files, start_confined
from flycore.pipeline.prepare import Sealed, masks_for, seal_programs
from flycore.registry.mcp_checks import sends_credentials
from flycore.runners.child.confined_start import ConfinedStart
from flycore.runners.child.spawn import SpawnSpec
from flycore.runners.mcp.call import McpCall, crash_outcome
from flycore.runners.mcp.connection_state import ConnectionState, StartError
from flycore.runners.mcp.input_requests import Question, Reply
from flycore.runners.mcp.sampling import Sampled, Sampling
from flycore.runners.mcp.session import McpSession, Started
from flycore.runners.one_shot import ProcessJsonJob, RunOutcome
from flycore.runners.output import OnEvent
from flycore.sandbox.call_confinement import NotPermitted
from flycore.sandbox.detection import detection
from flycore.sandbox.environment import child_environment, declared_secrets
from flycore.sandbox.levels import CONFINING, minimum_level, sandbox_level
from flycore.sandbox.login_store import LoginStore
from flycore.sandbox.seals import changed_part, seal_address, seal_by_name
from flycore.sandbox.secret_masks import Masks

FIRST_LIST_S = 20.0
"""The longest wait of a call to an unknown tool for the first tool list of the server that may have it."""
MESSAGE_MARGIN = 4_194_304
"""Bytes of a message beyond twice `maxOutputBytes`: files arrive in base64, and lists of tools are long."""
_RELEVANT_EVENTS = frozenset((EventClass.CATALOG, EventClass.SNAPSHOT))


class _OpenSession(msgspec.Struct, eq=False):
    """An open session."""

    entry: SidecarEntry
    level: Level
    session: McpSession
    scope: anyio.CancelScope = msgspec.field(default_factory=anyio.CancelScope)
    ended: anyio.Event = msgspec.field(default_factory=anyio.Event)


class McpSlot(msgspec.Struct, frozen=True):
    """The right of one call to use a session; `session` is None if there is none."""

    session: McpSession | None
    mcp_call: McpCall
    key: None = None

    async def call(self, job: ProcessJsonJob, on_event: OnEvent | None = None) -> RunOutcome:
        """Run the call. Every failure is an outcome, not an exception."""
        if self.session is None:
            return crash_outcome("is not connected", None)
        return await self.session.call(job, self.mcp_call, on_event)


class _EntryLogin:
    """The person's login at the server of one entry, with its tokens known to the masks."""

    def __init__(self, environment: RootEnvironment, entry: SidecarEntry) -> None:
        self._store = LoginStore(environment.places, environment.environ)
        self._entry, self._masked = entry, environment.login_tokens

    def load(self) -> Login | None:
        """Return the login; None where there is none. Raises OSError."""
        login = self._store.find(self._entry.id, self._entry.url)
        self._mask(login)
        return login

    def keep(self, login: Login) -> None:
        """Keep the login in place of an earlier one. Raises OSError."""
        self._mask(login)
        self._store.keep(self._entry.id, login)

    def end(self, login: Login, why: str) -> None:
        """Forget the tokens of that login. Raises OSError."""
        self._store.end(self._entry.id, login, why)

    def stamp(self) -> tuple[int, ...]:
        """Return what changes whenever the login may have changed."""
        return self._store.stamp()

    def _mask(self, login: Login | None) -> None:
        if login is not None and login.secret is not None:
            self._masked[self._entry.id] = login.secret.values()


class McpServers:
    """The sessions of one kernel. None is started while `panic_active` returns True.

    `session` is the kernel's own: the call ids of the servers begin with it, so that the next kernel finds
    servers that a killed one left.
    """

    def __init__(
        self,
        environment: RootEnvironment,
        clock: Clock,
        refresher: StateRefresher,
        panic_active: Callable[[], bool],
        session: str,
        questions: ServerQuestions,
        samplings: Samplings,
    ) -> None:
        self._environment, self._clock, self._refresher = environment, clock, refresher
        self._questions, self._samplings = questions, samplings
        self._panic_active, self._session = panic_active, session
        self._sessions: dict[str, _OpenSession] = {}
        self._group: TaskGroup | None = None

    async def run(
        self, bus: Bus, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Open and close sessions as the catalog requires until cancelled; then close all."""
        with bus.subscribe(_RELEVANT_EVENTS) as changes:
            async with anyio.create_task_group() as group:
                self._group = group
                self.review()
                task_status.started()
                async for _ in changes:
                    self.review()

    def review(self) -> None:
        """Start the sessions that should be open, and end the others."""
        if self._group is None:
            return
        entries = {} if self._panic_active() else {entry.id: entry for entry in self._wanted_entries()}
        for sidecar, opened in tuple(self._sessions.items()):
            entry = entries.get(sidecar)
            if entry is None or entry.digest != opened.entry.digest or opened.level is not self._level(entry):
                # The new session starts when this one has ended: `_keep` calls `review` again.
                opened.scope.cancel()
        for sidecar, entry in entries.items():
            if sidecar not in self._sessions:
                record_status = partial(self._record_status, entry)
                app_root = self._environment.places.app_root
                ask = partial(self._ask_person, entry)
                hand_on = partial(self._hand_on, entry) if entry.samples else None
                start = partial(self._start, entry)
                session = McpSession(start, record_status, app_root, ask, hand_on=hand_on)
                opened = _OpenSession(entry, self._level(entry), session)
                self._sessions[sidecar] = opened
                self._group.start_soon(self._keep, opened)

    def retry(self, sidecar: str) -> None:
        """Connect to the server again now, or list its tools again."""
        if sidecar in self._sessions:
            self._sessions[sidecar].session.retry()

    async def ready(self, tool: str) -> None:
        """Wait for the first tool list of the server that the tool may be of, FIRST_LIST_S at most."""
        sidecar = _entry_of(tool)
        view = self._refresher.root_state.catalog.sidecar(sidecar)
        if view is None or view.entry.kind is not Kind.MCP or tool in self._refresher.root_state.index:
            return
        self.review()  # a catalog change of a moment ago may not have been handled yet
        opened = self._sessions.get(sidecar)
        if opened is not None:
            with anyio.move_on_after(FIRST_LIST_S):
                await opened.session.settled.wait()
                await self._refresher.flush_observations()

    @asynccontextmanager
    async def hold(
        self, sidecar: str, mcp_call: McpCall, waits: Callable[[str], None]
    ) -> AsyncIterator[McpSlot]:
        """Wait for the session to be free for one call, and hold it while the block runs."""
        opened = self._sessions.get(sidecar)
        if opened is None:
            yield McpSlot(None, mcp_call)
            return
        async with opened.session.hold(waits):
            yield McpSlot(opened.session, mcp_call)

    async def halt(self) -> None:
        """End every session, and wait until their processes are gone."""
        ending = tuple(self._sessions.values())
        for opened in ending:
            opened.scope.cancel()
        # Shielded: no server may be left, also if the caller is cancelled meanwhile.
        with anyio.CancelScope(shield=True):
            for opened in ending:
                await opened.ended.wait()

    async def _keep(self, opened: _OpenSession) -> None:
        try:
            with opened.scope:
                await opened.session.run()
        finally:
            if self._sessions.get(opened.entry.id) is opened:
                del self._sessions[opened.entry.id]
            # Both are set however the session ended, so that no call and no `halt` waits for it in vain.
            opened.session.settled.set()
            opened.ended.set()
        self.review()

    def _wanted_entries(self) -> list[SidecarEntry]:
        """Return the entries in force whose sessions should be open."""
        state, files = self._refresher.root_state, self._refresher.files
        found = []
        for view in state.catalog.sidecars:
            entry = files.registry.entry(view.id)
            if entry is not None and entry.digest == view.entry.digest and _may_run(view):
                missing = declared_secrets(entry.permissions, self._environment.secret_values)[1]
                allowed = self._may_run_at_level(entry)
                found += [entry] if allowed and not missing else []
        return found

    async def _start(self, entry: SidecarEntry) -> Started:
        values, _ = declared_secrets(entry.permissions, self._environment.secret_values)
        max_bytes = max(DEFAULT_MAX_OUTPUT_BYTES, entry.max_output_bytes) * 2 + MESSAGE_MARGIN
        if entry.url:
            from flycore.runners.mcp.http import HttpTransport, fill_headers

            headers = fill_headers(entry.headers, values)
            login = None if sends_credentials(entry) else _EntryLogin(self._environment, entry)
            return Started(
                HttpTransport(entry.url, headers, max_bytes, login), seal_address(entry).digest, Level.NONE
            )
        from flycore.runners.mcp.stdio import StdioTransport

        level = self._level(entry)
        spec, program = await anyio.to_thread.run_sync(self._spawn, entry, level, values)
        link = StdioTransport(spec, max_bytes, restarts_on_cancel=entry.restarts_on_cancel)
        return Started(link, program, level)

    def _level(self, entry: SidecarEntry) -> Level:
        """Return the level at which the entry's server runs here."""
        bundled = self._environment.bundled(self._refresher.files.programs.get(entry.id))
        return sandbox_level(entry, self._refresher.root_state.support, bundled=bundled)

    def _may_run_at_level(self, entry: SidecarEntry) -> bool:
        """Return whether a tool of the entry may run at that level, however its server names it."""
        bundled = self._environment.bundled(self._refresher.files.programs.get(entry.id))
        least = minimum_level(entry, bundled=bundled)
        lowest = lowest_minimum(entry.id, least, self._refresher.files.settings.sandbox_minimum)
        return self._level(entry).at_least(lowest)

    def _spawn(self, entry: SidecarEntry, level: Level, values: dict[str, str]) -> tuple[SpawnSpec, str]:
        """Return how the server is started, and the digest of its seal. Raises StartError."""
        files = self._refresher.files
        # This runs in a thread after a wait: the files may have been replaced since the session was wanted.
        program = files.programs.get(entry.id)
        current = files.registry.entry(entry.id)
        if program is None or current is None or current.digest != entry.digest:
            raise StartError(
                "the entry changed while its server was starting",
                "nothing: it is started again automatically",
            )
        support = self._refresher.root_state.support
        sealed = seal_programs(self._environment, files.registry, entry, support)
        if isinstance(sealed, Sealed) and sealed.changed:
            self._environment.accepted.refuse(entry.id, entry.digest, sealed.accepted_digest(entry))
            raise StartError(
                "its program changed since you trusted it", "press T and trust it again, if that is wanted"
            )
        try:
            conditions = self._environment.conditions(files.registry, entry, level)
            runs, seal = seal_and_materialise(self._environment, conditions, program)
        except OSError as fault:
            raise StartError(
                f"the program cannot be sealed: {fault}", "find out what changes the file"
            ) from fault
        name = f"{self._session}-mcp-{secrets.token_hex(6)}"
        spec = SpawnSpec(
            argv=runs.argv,
            cwd=self._environment.working_folder(files.registry, entry),
            env=child_environment(
                entry, runs, environ=self._environment.environ, secrets=values, call_id=name
            ),
            call_id=name,
            limits=entry.limits,
            sidecar=entry.id,
            check=partial(changed_part, program, seal, conditions) if seal.partial else None,
            confine=self._confine(entry, level, StartedProgram(runs, seal)),
        )
        return spec, seal_by_name(entry, program, seal).digest

    def _confine(
        self, entry: SidecarEntry, level: Level, started: StartedProgram
    ) -> Callable[[SpawnSpec], ConfinedStart] | None:
        """Return what confines the server, by its entry alone, since it serves many calls. Raises
        StartError."""
        if level not in CONFINING:
            return None
        home = self._environment.environ.get("HOME", "")
        try:
            protected = protected_files(
                self._environment.places, home, level, entry.effective_permissions, {}
            )
        except NotPermitted as error:
            raise StartError(f"{error}", error.hint) from error
        confining = Confining(
            level=level,
            support=self._refresher.root_state.support,
            permissions=entry.effective_permissions,
            programs=(started,),
            store=self._environment.places.store_dir,
            app_root=str(self._environment.places.app_root),
            home=home,
            protected=protected,
        )
        return start_confined(confining, {}, "")

    async def _ask_person(self, entry: SidecarEntry, asked: Question) -> Reply:
        masks = masks_for(self._refresher.root_state, entry, self._environment)
        return await self._questions.ask(entry.id, masks, asked)

    async def _hand_on(self, entry: SidecarEntry, asked: Sampling) -> Sampled:
        masks = masks_for(self._refresher.root_state, entry, self._environment)
        return await self._samplings.hand_on(entry.id, masks, asked)

    def _record_status(self, entry: SidecarEntry, connection: ConnectionState) -> None:
        if connection.unconfined:
            detection.expire()  # what worked at the start may be gone: it is tried again
        if connection.login_needed:
            remedy = f"log in with flytui upstream login {entry.id}, or F in the console"
            connection = msgspec.structs.replace(connection, remedy=remedy)
        masks = masks_for(self._refresher.root_state, entry, self._environment)
        listing = None if connection.listing is None else without_secrets(connection.listing, masks)
        finding = finding_of(connection, masks, self._clock.now())
        self._refresher.observations.note(entry, Answer(finding=finding, listing=listing))


def _entry_of(tool: str) -> str:
    """Return the id of the entry that the tool would be of."""
    for ending in REQUEST_NAMES.values():
        if tool.endswith(f".{ending}"):
            return tool.removesuffix(f".{ending}")
    return tool.rpartition(".")[0]


def _may_run(view: SidecarView) -> bool:
    """Whether an MCP entry is trusted and enabled, with an existing program of a compatible version."""
    stability = view.stability
    return (
        view.entry.kind is Kind.MCP
        and view.trusted
        and view.entry.enabled
        and stability.path is PathState.RESOLVED
        and stability.version in (VersionState.COMPATIBLE, VersionState.UNKNOWN)
    )


def without_secrets(listing: McpToolList, masks: Masks) -> McpToolList:
    """Return the listing without the tools whose text has a secret: every client may read the catalog."""
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
    lists = McpLists(
        resources=_unmasked(listing.lists.resources, masks),
        templates=_unmasked(listing.lists.templates, masks),
        prompts=_unmasked(listing.lists.prompts, masks),
        more=listing.lists.more,
    )
    return McpToolList(tools=tuple(tools), refused=(*masked, *refused), more=listing.more, lists=lists)


def _unmasked(listed: tuple[JsonObject, ...], masks: Masks) -> tuple[JsonObject, ...]:
    return tuple(item for item in listed if masks.json(item) == item)


def finding_of(connection: ConnectionState, masks: Masks, now: float) -> ProbeFinding:
    """Return a connection's probe finding: healthy, degraded if the tool list was cut, or unavailable."""
    listing = connection.listing
    stderr_tail = masks.text(connection.stderr_tail, cut=True)
    if listing is None:
        reason = Reason(
            code=ReasonCode.LOGIN_NEEDED if connection.login_needed else ReasonCode.PROBE_UNAVAILABLE,
            dimension="probe",
            message=masks.text(connection.fault, cut=True),
            remedy=masks.text(connection.remedy, cut=True),
        )
        evidence = ProbeEvidence(at=now, stderr_tail=stderr_tail, note="not connected")
        return ProbeFinding(state=ProbeState.UNAVAILABLE, reason=reason, evidence=evidence, fresh=True)
    note = f"connected: {masks.text(connection.server, cut=True)}, {_counts(listing)}"
    evidence = ProbeEvidence(at=now, duration_ms=connection.took_ms, stderr_tail=stderr_tail, note=note)
    if not listing.more:
        return ProbeFinding(state=ProbeState.HEALTHY, evidence=evidence, fresh=True)
    reason = Reason(
        code=ReasonCode.PROBE_DEGRADED,
        dimension="probe",
        message=f"{listing.more}: the rest is left out",
        remedy='name those that are needed in "tools" of the entry',
    )
    return ProbeFinding(state=ProbeState.DEGRADED, reason=reason, evidence=evidence, fresh=True)


def _counts(listing: McpToolList) -> str:
    """Return how many of each the server lists, without what it has none of beside tools."""
    lists = listing.lists
    tools = sum(not tool.request for tool in listing.tools)
    named = (
        (len(lists.resources), "resource"),
        (len(lists.templates), "template"),
        (len(lists.prompts), "prompt"),
    )
    counted = ((tools, "tool"), *((count, name) for count, name in named if count))
    words = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counted)
    return f"{words} ({lists.more})" if lists.more else words
