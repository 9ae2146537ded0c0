"""Observations of sidecars: their last answers and failures, and how the last calls of their tools ended.

An observation is about one value of an entry. A failure holds for a minute without a call, and all else until
the entry changes. Times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from flycore.catalog.probes import ProbeFinding
from flycore.model.base import Value
from flycore.model.enums import Code, ProbeState, ReasonCode, RuntimeState, Source
from flycore.model.json import digest
from flycore.model.program import ResolvedProgram
from flycore.model.refusals import Refusals
from flycore.model.sidecar import Registry, SidecarEntry
from flycore.model.stability import RuntimeEvidence
from flycore.model.upstream import McpToolList
from flycore.store.json_store import Store

F = TypeVar("F")


class Surroundings(msgspec.Struct, frozen=True):
    """What a sidecar found on this machine when it was probed."""

    digest: str
    since: float
    """When it was first seen so."""


class Answer(Value, frozen=True, kw_only=True):
    """The answer of a sidecar: to its probe, to `--schema`, or in the session with an MCP server."""

    finding: ProbeFinding
    listing: McpToolList | None = None
    """The tools that an executable or an MCP server listed last; None before the first list."""
    programs: Mapping[str, ResolvedProgram] | None = None
    """The programs that a probe asked; the answer holds for these only. None for other answers."""
    surroundings: Surroundings | None = None
    """The surroundings of a probe; None if an earlier kernel asked."""
    remembered: bool = False
    """Whether an earlier kernel asked, so that it is shown only until this one has probed the sidecar."""

    @property
    def is_probed(self) -> bool:
        """Whether it is the answer to a probe by this kernel."""
        return self.programs is not None and not self.remembered


class UnavailableAnswer(Value, frozen=True, kw_only=True):
    """The words of a tool that answered `unavailable`: the reason, and how to mend it."""

    message: str
    hint: str = ""


class CallEnd(Value, frozen=True, kw_only=True):
    """The end of a call of a tool."""

    tool: str
    at: float
    succeeded: bool
    code: str = ""
    message: str = ""
    stderr_tail: str = ""
    refusals: Refusals | None = None
    """The accesses that it was refused, if they explain its failure."""
    unavailable: UnavailableAnswer | None = None
    """The tool's own words, if it answered that it is unavailable."""
    seal: str = ""
    """Digest of the seal of its program; empty if the call was not confined."""


class Failure(Value, frozen=True, kw_only=True):
    """The call that made the `runtime` dimension something else than ready."""

    state: RuntimeState
    evidence: RuntimeEvidence
    last: float
    """The time of the last call."""


class Observation(Value, frozen=True, kw_only=True):
    """The facts that were observed of one sidecar."""

    basis: tuple[Source, str] | None = None
    """Source and digest of the entry; all facts but `failure` are about this value of it."""
    answer: Answer | None = None
    failure: Failure | None = None
    refusals: Mapping[str, Refusals] = {}
    """By tool: the accesses that its last call was refused."""
    unavailable: Mapping[str, UnavailableAnswer] = {}
    """By tool: its answer to the last call, if that was `unavailable`."""

    def is_of(self, entry: SidecarEntry) -> bool:
        """Return whether the facts are about exactly this value of the entry."""
        # By the source, too: a project's entry and the user's own one may read the same.
        return self.basis == (entry.source, entry.digest)

    @property
    def finding(self) -> ProbeFinding | None:
        """The state of the probe dimension; None if the sidecar has not answered."""
        return self.answer.finding if self.answer is not None else None

    @property
    def is_probed(self) -> bool:
        """Whether this kernel has probed the sidecar."""
        return self.answer is not None and self.answer.is_probed

    @property
    def runtime(self) -> RuntimeState:
        """The state of the `runtime` dimension."""
        return self.failure.state if self.failure is not None else RuntimeState.READY


NO_OBSERVATION = Observation()
FORGOTTEN_AFTER_S = 60.0
"""Seconds without a call after which a failure says little about the present."""
STATE_BY_CODE = {
    Code.CRASHED: RuntimeState.FAILED,
    Code.SPAWN: RuntimeState.FAILED,
    Code.TIMEOUT: RuntimeState.TIMED_OUT,
    Code.INVALID_OUTPUT: RuntimeState.SCHEMA_ERROR,
}
"""The codes that change the `runtime` dimension: only these are usually the sidecar's own fault."""
LONGEST = 400
"""Characters that are kept of what a tool said."""


# Which facts hold.


def still_holding(
    seen: Observation, entry: SidecarEntry, programs: Mapping[str, ResolvedProgram], now: float
) -> Observation:
    """Return the facts that hold for the entry as it is now; `programs` are those that it leads to."""
    failure = _recent(seen.failure, now)
    if not seen.is_of(entry):
        return Observation(failure=failure) if failure is not None else NO_OBSERVATION
    answer = seen.answer
    if answer is not None and answer.programs is not None and answer.programs != programs:
        answer = None
    if answer is seen.answer and failure is seen.failure:
        return seen
    return msgspec.structs.replace(seen, answer=answer, failure=failure)


def _recent(failure: Failure | None, now: float) -> Failure | None:
    return failure if failure is not None and now - failure.last < FORGOTTEN_AFTER_S else None


# How a fact changes an observation.


def with_answer(seen: Observation, answer: Answer) -> Observation:
    """Return the observation after the sidecar has answered."""
    finding, before = answer.finding, seen.answer
    healthy = finding.state is ProbeState.HEALTHY
    works = healthy or answer.listing is not None
    if before is not None and answer.listing is None and not says_nothing(finding):
        # A server that is not reached keeps the tools it listed.
        answer = msgspec.structs.replace(answer, listing=before.listing)
    if not finding.fresh:
        surroundings = before.surroundings if before is not None else None
        answer = msgspec.structs.replace(answer, surroundings=surroundings)
    probed_well = healthy and finding.fresh and answer.programs is not None
    return msgspec.structs.replace(
        seen,
        answer=answer,
        failure=None if works else seen.failure,
        unavailable={} if probed_well else seen.unavailable,
    )


def says_nothing(finding: ProbeFinding) -> bool:
    """Return whether it is the finding of an executable that did not say what it takes."""
    return finding.reason is not None and finding.reason.code is ReasonCode.SCHEMA_UNKNOWN


def with_call(seen: Observation, end: CallEnd) -> Observation:
    """Return the observation after a call of a tool has ended."""
    said = end.unavailable
    if said is not None:
        said = UnavailableAnswer(message=said.message[:LONGEST], hint=said.hint[:LONGEST])
    return msgspec.structs.replace(
        seen,
        failure=_failure_after(_recent(seen.failure, end.at), end),
        refusals=_fact_of_tool(seen.refusals, end, end.refusals),
        unavailable=_fact_of_tool(seen.unavailable, end, said),
    )


def _failure_after(before: Failure | None, end: CallEnd) -> Failure | None:
    if not end.code:
        return None
    state = STATE_BY_CODE.get(Code(end.code)) if end.code in set(Code) else None
    if state is None:
        return msgspec.structs.replace(before, last=end.at) if before is not None else None
    evidence = RuntimeEvidence(at=end.at, code=end.code, message=end.message, stderr_tail=end.stderr_tail)
    return Failure(state=state, evidence=evidence, last=end.at)


def _fact_of_tool(facts: Mapping[str, F], end: CallEnd, fact: F | None) -> Mapping[str, F]:
    """Return the facts by tool after that call. One that failed otherwise says nothing about them."""
    if fact is None and not (end.succeeded and end.tool in facts):
        return facts
    others = {tool: other for tool, other in facts.items() if tool != end.tool}
    return others if fact is None else {**others, end.tool: fact}


# The store.


MOST_REMEMBERED = 1_024
LARGEST = 131_072
"""Bytes of the file of `Observations`: more than `MOST_REMEMBERED` digests have."""


class Observations:
    """The observations of one kernel. Used on the event loop's thread only.

    Which calls succeeded is kept in `file`, if one is given: such calls need no observer. A file that is
    absent or broken only means that calls are observed once more.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.current: Mapping[str, Observation] = {}
        """By sidecar. It is replaced as a whole, so that another thread may read it."""
        self.on_news: Callable[[], None] = lambda: None
        """Is called if the catalog has to show a new fact."""
        self.observer_fault = ""
        """Why no further call is observed; empty until one could not be started with an observer."""
        self._shown: Mapping[str, Observation] = self.current
        self._known: Mapping[str, tuple[Source, str]] = {}
        """The basis of each entry in the latest state."""
        self._store = Store[list[str]](file, list[str], [], LARGEST)
        self._succeeded = dict.fromkeys(self._store.value[-MOST_REMEMBERED:])
        self._saved = True

    def note(self, entry: SidecarEntry, fact: Answer | CallEnd) -> None:
        """Note a fact about the entry's sidecar, unless the entry has changed since."""
        basis = (entry.source, entry.digest)
        if self._known.get(entry.id, basis) != basis:
            return
        before = self.current.get(entry.id, NO_OBSERVATION)
        if not before.is_of(entry):
            before = Observation(basis=basis, failure=before.failure)
        if isinstance(fact, Answer):
            after = with_answer(before, fact)
            news = after != before
        else:
            before = msgspec.structs.replace(before, failure=_recent(before.failure, fact.at))
            after = with_call(before, fact)
            # What worked before may be gone: the levels of the sandbox are tried again for a new catalog.
            news = fact.code == ReasonCode.SANDBOX_UNAVAILABLE or _is_news(before, after)
            self._note_success(_call_key(entry, fact.tool, fact.seal), fact)
        if after != before:
            self.current = {**self.current, entry.id: after}
        if news:
            self.on_news()

    def forget_unavailable(self, sidecar: str) -> None:
        """Forget the answers of the sidecar's tools, because it is asked again."""
        seen = self.current.get(sidecar, NO_OBSERVATION)
        if seen.unavailable:
            self.current = {**self.current, sidecar: msgspec.structs.replace(seen, unavailable={})}

    def settle(
        self,
        shown: Mapping[str, Observation],
        registry: Registry,
        programs: Callable[[str], Mapping[str, ResolvedProgram]],
        now: float,
    ) -> None:
        """Note that a state of these entries shows `shown`, and drop the facts that no longer hold.

        `programs` gives the programs that an entry leads to, by its id.
        """
        latest = shown is self.current
        self._known = {entry.id: (entry.source, entry.digest) for entry in registry.entries}
        self.current = {
            entry.id: still_holding(self.current[entry.id], entry, programs(entry.id), now)
            for entry in registry.entries
            if entry.id in self.current
        }
        self._shown = self.current if latest else shown

    @property
    def has_unshown(self) -> bool:
        """Whether anything was noted that no state shows yet."""
        return self.current is not self._shown

    def next_change(self, now: float) -> float | None:
        """Return when the next failure is forgotten, if no call comes before; None if there is no failure."""
        failures = (_recent(seen.failure, now) for seen in self.current.values())
        return min((one.last + FORGOTTEN_AFTER_S for one in failures if one is not None), default=None)

    # Which calls succeeded.

    def has_succeeded(self, entry: SidecarEntry, tool: str, seal: str) -> bool:
        """Return whether the last call of the tool with that entry and that seal succeeded."""
        return _call_key(entry, tool, seal) in self._succeeded

    @property
    def is_saved(self) -> bool:
        """Whether `save` has nothing to write."""
        return self._saved

    def save(self) -> None:
        """Write the file. It waits for the disk. If it cannot be written, nothing is lost but time."""
        self._saved = True
        self._store.replace(list(self._succeeded))

    def _note_success(self, name: str, end: CallEnd) -> None:
        if not end.seal or end.succeeded is (name in self._succeeded):
            return
        self._saved = False
        if not end.succeeded:
            del self._succeeded[name]
            return
        self._succeeded[name] = None
        while len(self._succeeded) > MOST_REMEMBERED:
            del self._succeeded[next(iter(self._succeeded))]


def _is_news(before: Observation, after: Observation) -> bool:
    """Return whether the catalog shows that a call has ended so."""
    return (before.runtime, before.refusals, before.unavailable) != (
        after.runtime,
        after.refusals,
        after.unavailable,
    )


def _call_key(entry: SidecarEntry, tool: str, seal: str) -> str:
    """Return what has to be the same for two calls to meet the same sandbox."""
    return digest([tool, entry.digest, seal])
