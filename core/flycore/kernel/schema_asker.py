"""Asks executables with `--schema` which tools they offer: two at a time, in the sandbox, with no permission.

Only a trusted entry's program is asked. An answer is kept by the identity and the bytes of the file, so that
the next kernel asks nobody.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup

from flycore.catalog.observations import Observations
from flycore.catalog.probes import STDERR
from flycore.discovery.executables import file_sha256
from flycore.discovery.tool_schema import SchemaFault, read_schema
from flycore.kernel.probe_runner import program_job
from flycore.kernel.schema_answers import SchemaAnswer, SchemaCache, program_key
from flycore.model.catalog import Catalog, SidecarView
from flycore.model.enums import Kind, PathState, ReasonCode, SandboxState
from flycore.model.sidecar import Permissions, SidecarEntry
from flycore.model.stability import ProbeEvidence
from flycore.model.upstream import McpToolList, ToolDefinition, UnreadableTool
from flycore.pipeline.confine import Confining, confined
from flycore.pipeline.context import Files, RootEnvironment, RootState
from flycore.runners.mcp.tools import definition_fault, plain_schema
from flycore.runners.one_shot import ProcessJsonJob, SchemaOutput, ask_schema
from flycore.sandbox.detection import detection
from flycore.sandbox.seals import held_copies

AT_ONCE = 2
MOST_PROCESSES = 64
MOST_CPU_SECONDS = 10
READY_S = 20.0
"""The longest wait of a call for the schemas that are being asked for."""


class _Known(NamedTuple):
    """For which value of an entry, and which file, an executable was asked last."""

    entry: str
    key: str


async def ask_unknown(
    environment: RootEnvironment,
    files: Files,
    catalog: Catalog,
    cache: SchemaCache,
    observations: Observations,
    session: str,
    now: float,
    *,
    again: bool = False,
) -> None:
    """Ask the executables of the catalog whose schema is not known yet, or with `again` all of them, where no
    kernel runs. What they say is noted in `observations`."""
    known = frozenset[str]() if again else frozenset(observations.current)
    limiter = anyio.Semaphore(AT_ONCE)

    async def ask_one(entry: SidecarEntry) -> None:
        async with limiter:
            answer = await ask(environment, files, entry, session, now)
        observations.note(entry, answer.answer(entry))
        if answer.lasting:
            cache.put(program_key(files, entry), answer)

    async with anyio.create_task_group() as group:
        for view in catalog.sidecars:
            entry = _wanted(files, view)
            if entry is not None and entry.id not in known:
                group.start_soon(ask_one, entry)
    await anyio.to_thread.run_sync(cache.save)


class SchemaAsker:
    """The questions of one kernel. Nobody is asked while `panic_active` returns True."""

    def __init__(
        self,
        environment: RootEnvironment,
        session: str,
        observations: Observations,
        panic_active: Callable[[], bool],
        now: Callable[[], float],
    ) -> None:
        """Call ids of the questions begin with `session`; the answers are noted in `observations`."""
        self._environment, self._session = environment, session
        self._observations, self._panic_active = observations, panic_active
        self.cache = SchemaCache(environment.places)
        self._now = now
        self._asked: dict[str, _Known] = {}
        self._again: set[str] = set()
        self._asking: dict[str, anyio.Event] = {}
        self._limiter = anyio.Semaphore(AT_ONCE)
        self._changed = anyio.Event()
        self._state: tuple[Files, RootState] | None = None
        self._looked = anyio.Event()
        """Set while no state waits to be looked at."""

    def review(self, files: Files, state: RootState) -> None:
        """Look soon whether an executable of this state has to be asked."""
        self._state = files, state
        if self._looked.is_set():
            self._looked = anyio.Event()
        self._changed.set()

    async def ready(self, sidecar: str = "") -> None:
        """Wait until that executable, or with an empty text each one, has answered what it has to be asked by
        the latest state."""
        while not self._looked.is_set() and not self._panic_active():
            await self._looked.wait()
        asking = self._asking.get(sidecar)
        for event in (asking,) if asking is not None else () if sidecar else tuple(self._asking.values()):
            await event.wait()

    def ask_again(self, sidecar: str) -> None:
        """Ask that executable soon, whatever is known of it."""
        self._again.add(sidecar)
        self._changed.set()

    async def run(self) -> None:
        """Ask whoever has to be asked, until cancelled."""
        async with anyio.create_task_group() as group:
            while True:
                await self._changed.wait()
                self._changed, looked = anyio.Event(), self._looked
                if self._state is not None and not self._panic_active():
                    await self._look(group, *self._state)
                looked.set()

    async def _look(self, group: TaskGroup, files: Files, state: RootState) -> None:
        wanted = [entry for view in state.catalog.sidecars if (entry := _wanted(files, view)) is not None]
        keys = await anyio.to_thread.run_sync(
            lambda: {entry.id: program_key(files, entry) for entry in wanted}
        )
        for entry in wanted:
            known, again = _Known(entry.digest, keys[entry.id]), entry.id in self._again
            if (
                not known.key
                or entry.id in self._asking
                or (self._asked.get(entry.id) == known and not again)
            ):
                continue
            self._again.discard(entry.id)
            self._asked[entry.id] = known
            answer = None if again else self.cache.get(known.key)
            if answer is None:
                self._asking[entry.id] = anyio.Event()
                group.start_soon(self._ask, files, entry, known.key)
            else:
                self._observations.note(entry, answer.answer(entry))

    async def _ask(self, files: Files, entry: SidecarEntry, key: str) -> None:
        try:
            async with self._limiter:
                answer = await ask(self._environment, files, entry, self._session, self._now())
            if answer.lasting:
                self.cache.put(key, answer)
                await anyio.to_thread.run_sync(self.cache.save)
            self._observations.note(entry, answer.answer(entry))
        finally:  # also when cancelled, so that no call waits for it in vain
            self._asking.pop(entry.id).set()
            self._changed.set()  # the file may have changed while it was asked


def _wanted(files: Files, view: SidecarView) -> SidecarEntry | None:
    """Return the entry in force if its program may be asked: trusted, found, and confined as it has to be."""
    entry = files.registry.entry(view.id)
    stability = view.stability
    if entry is None or entry.kind is not Kind.EXECUTABLE or not view.trusted or not entry.enabled:
        return None
    if entry.digest != view.entry.digest or stability.path is not PathState.RESOLVED:
        return None
    refused = (ReasonCode.SANDBOX_UNAVAILABLE, ReasonCode.CEILING_EXCEEDED)
    denied = stability.sandbox is SandboxState.DENIED
    return None if denied and stability.reasons and stability.reasons[0].code in refused else entry


async def ask(
    environment: RootEnvironment, files: Files, entry: SidecarEntry, session: str, now: float
) -> SchemaAnswer:
    """Ask the entry's program, if it is the trusted one and can be confined here. `now` is Unix time in
    seconds."""
    name = f"{session}-schema-{secrets.token_hex(6)}"
    try:
        job = await anyio.to_thread.run_sync(_trusted_job, environment, files, entry, name)
    except OSError as error:  # which SealBrokenError is, too
        return _not_asked(str(error.strerror or error), now)
    if job is None:
        return _not_asked("its file changed after it was trusted", now)
    output = await ask_schema(job)
    if output.unconfined:
        detection.expire()
    return await anyio.to_thread.run_sync(read_output, output, now)


def _not_asked(why: str, now: float) -> SchemaAnswer:
    evidence = ProbeEvidence(at=now)
    return SchemaAnswer(why_not=f"could not be asked: {why}", evidence=evidence, lasting=False)


def _trusted_job(
    environment: RootEnvironment, files: Files, entry: SidecarEntry, name: str
) -> ProcessJsonJob | None:
    """Return the confined job of the question; None where the program is not the trusted one. Raises
    SealBrokenError and OSError."""
    confining, job = program_job(environment, files, entry, entry.file_alias, name, Permissions())
    program = files.programs[entry.id]
    # Trust is in these bytes. They are compared behind the seal, so that what was sealed is what was trusted.
    if entry.sha256 and file_sha256(_file_that_runs(confining, program.path)) != entry.sha256:
        return None
    # To print a text takes neither many processes nor much time of a processor.
    limits = msgspec.structs.replace(
        entry.limits,
        processes=min(MOST_PROCESSES, entry.limits.most_processes),
        cpu_seconds=min(MOST_CPU_SECONDS, entry.limits.cpu_seconds or MOST_CPU_SECONDS),
    )
    return confined(confining, replace(job, input={}, limits=limits))


def _file_that_runs(confining: Confining | None, path: str) -> str:
    """Return the sealed copy of the program, or the program where it runs in place."""
    for started in confining.programs[:1] if confining is not None else ():
        for folder, copy in held_copies(started.seal, confining.store if confining is not None else Path()):
            if path.startswith(f"{folder}/"):
                return copy + path[len(folder) :]
    return path


def read_output(output: SchemaOutput, at: float) -> SchemaAnswer:
    """Return what the executable said by what it wrote; `at` is the Unix time of that in seconds."""
    evidence = ProbeEvidence(at=at, duration_ms=output.duration_ms, stderr_tail=output.stderr_tail[-STDERR:])
    if output.why_not:
        return SchemaAnswer(why_not=output.why_not, evidence=evidence, lasting=output.lasting)
    try:
        listing = _usable(read_schema(output.stdout))
    except SchemaFault as fault:
        return SchemaAnswer(why_not=str(fault), evidence=evidence)
    return SchemaAnswer(listing=listing, evidence=evidence)


def _usable(listing: McpToolList) -> McpToolList:
    """Return the listing without the tools whose schemas cannot be used. Raises SchemaFault where none is
    left."""
    tools: list[ToolDefinition] = []
    refused = list(listing.refused)
    for tool in listing.tools:
        plain = msgspec.structs.replace(
            tool, input_schema=plain_schema(tool.input_schema), output_schema=plain_schema(tool.output_schema)
        )
        why, _ = definition_fault(plain)
        if why:
            refused.append(UnreadableTool(name=tool.name, why=why))
        else:
            tools.append(plain)
    if not tools:
        raise SchemaFault(f"describes no tool that can be used: it {refused[-1].why}")
    return msgspec.structs.replace(listing, tools=tuple(tools), refused=tuple(refused))
