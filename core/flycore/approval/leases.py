"""Leases: permission for further calls of the same caller, for a limited time and number of calls.

A lease is bound to a digest over everything that an approval rests on besides the input. A change in any of
it, such as another program or level, means that the lease no longer covers the call. Leases live in memory
and end with the kernel.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from enum import StrEnum
from urllib.parse import urlsplit

import anyio
import msgspec

from flycore.approval.earlier_answers import FOREVER, AnswerKind, EarlierAnswer, EarlierAnswers, IsAlive
from flycore.approval.lease_folder import lies_within, path_fields
from flycore.approval.waiters import wait_until
from flycore.catalog.schemas import accepts, needs_process
from flycore.model.approval import (
    LEASE_MINUTES,
    MAX_PARTIAL_MINUTES,
    UNTIL_LEFT,
    ApprovalRequest,
    Ask,
    Lease,
    LeaseTerms,
    Subject,
)
from flycore.model.call import Caller
from flycore.model.clock import Clock
from flycore.model.enums import Choice, LeaseScope, RequestState, Risk
from flycore.model.json import Json, JsonObject, canonical_json, digest
from flycore.model.large_values import is_large
from flycore.model.program import surroundings_of
from flycore.policy.conditions import schema_faults
from flysafe.procfs import read_process

WEB_TOOLS = ("web.", "agent.fetch")
_PLAIN = re.compile(r"[!#-;=?-\[\]_a-z~]+", re.IGNORECASE)
"""An address of printable ASCII without space, quote, backslash and control characters."""
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|[0-9a-f:.]+")
MAX_GROWTH_FACTOR = 4
MAX_GROWTH_BYTES = 1024
"""A call is asked again where its canonical input has more than four times the bytes of the approved one and
more than 1024 bytes more: the person has not seen a payload of that size."""
MAX_CALLS = 100
MAX_CONDITION_BYTES = 65_536
LIVENESS_CHECK_SECONDS = 1.0
"""Seconds between two checks whether a caller has left whose lease lasts until then."""


class LeaseChange(StrEnum):
    """What can happen to a lease."""

    MADE = "made"
    USED = "used"
    REVOKED = "revoked"
    RESTORED = "restored"
    ENDED = "ended"
    """Its time is over, its caller has left, or its tool was blocked."""


OnLeaseChange = Callable[[LeaseChange, Lease, str], None]
"""Is called with what happened to which lease, and with the console that revoked or restored it; empty where
no console did."""


def is_caller_alive(caller: Caller) -> bool:
    """Return whether the caller's own process still runs."""
    # The start time is compared because the kernel gives the pid of an ended process to a new one.
    process = read_process(caller.pid) if caller.pid > 0 else None
    return process is not None and process.started == caller.started


def lease_durations(request: ApprovalRequest) -> tuple[int, ...]:
    """Return the minutes for which a lease may be made for that request."""
    # What a partial seal does not hold may change unseen, so a lease on it is short and ends by the clock.
    if request.partial:
        return tuple(minutes for minutes in LEASE_MINUTES if minutes <= MAX_PARTIAL_MINUTES)
    return (*LEASE_MINUTES, *((UNTIL_LEFT,) if request.caller.pid > 0 else ()))


def lease_obstacle(request: ApprovalRequest) -> str:
    """Return why no lease can be made for that request, whatever its terms; empty where one can."""
    if request.risk is Risk.CRITICAL:
        return "a call of critical risk is decided each time"
    if request.caller.is_sidecar:
        return "a sidecar that calls a tool itself is asked for each call: it gets no lease"
    if request.partial and request.risk.at_least(Risk.HIGH):
        return f"high risk, and flytui cannot watch all that may run: {request.partial}"
    if not all(seal.leasable for seal in request.seals):
        return f"flytui would not notice a change of what may run: {request.partial or request.seal.note}"
    return ""


def lease_weakness(request: ApprovalRequest) -> str:
    """Return what a lease on that program does not protect from, in words; empty for a complete seal."""
    if not request.partial:
        return ""
    watched = "a change of its working folder ends the lease" if surroundings_of(request.seals) else ""
    checked = watched or "flytui checks only the file that it starts"
    return f"this program may change or load other files ({request.partial}); {checked}"


def lease_fault(request: ApprovalRequest, terms: LeaseTerms | None) -> str:
    """Return why these terms make no lease for that request; empty where they do."""
    if terms is None:
        return "a lease needs its terms"
    if obstacle := lease_obstacle(request):
        return obstacle
    if terms.minutes not in (*LEASE_MINUTES, UNTIL_LEFT) or not 1 <= terms.calls <= MAX_CALLS:
        minutes = ", ".join(str(number) for number in LEASE_MINUTES)
        return f"a lease is for {minutes} minutes or until the caller leaves, and 1 to {MAX_CALLS} calls"
    if terms.minutes == UNTIL_LEFT and request.caller.pid <= 0:
        return "flytui cannot see when this caller leaves: choose a number of minutes"
    if terms.minutes not in lease_durations(request):
        return f"its seal is partial ({request.partial}): {MAX_PARTIAL_MINUTES} minutes at most"
    if terms.scope is LeaseScope.GROUP and not request.group:
        return "this tool belongs to no group: make the lease for the tool"
    if terms.scope is LeaseScope.HOST and not request.host:
        return "the host of this call is not certain: make the lease for the tool"
    if terms.scope is LeaseScope.FOLDER and not request.folder:
        return "the folder of this call is not certain: make the lease for the tool"
    return "" if terms.condition is None else _condition_fault(request, terms.condition)


def scope_digest(subject: Subject, group: str = "", surroundings: str = "") -> str:
    """Return the digest that a lease is bound to: over caller, tool or group, seal, delegates, entry,
    permissions, environment names, level, and the working folder that a partial seal depends on."""
    # Input and preview differ from call to call. Policy is evaluated again for each call and may still deny,
    # so a new version of it does not end a lease.
    about: dict[str, Json] = {"group": group} if group else {"tool": subject.tool}
    return digest(
        {
            **about,
            "caller": subject.caller,
            "seal": subject.seal,
            "delegates": {**subject.delegates},
            "entry": subject.entry,
            "permissions": subject.permissions,
            "envNames": list(subject.env_names),
            "level": subject.level,
            "surroundings": surroundings,
        }
    )


def input_bytes(input: JsonObject) -> int:
    """Return the size of the input's canonical JSON."""
    return len(canonical_json(input))


class HeldLease(EarlierAnswer):
    """A lease with what only its store needs to know. Its key is the caller, and `until` is infinite if it
    lasts until the caller leaves."""

    kind = AnswerKind.LEASE
    lease: Lease
    approved_bytes: int
    approved_risk: Risk
    app_root: str = ""
    """The folder against which relative paths are resolved."""
    path_fields: tuple[str, ...] = ()
    """The names of the fields that held the paths of the approved call."""
    panic_count: int = 0
    """How often everything had been stopped when the lease was made."""

    def covers(self, subject: Subject, risk: Risk, group: str, surroundings: str) -> bool:
        """Return whether the lease, while it is active, permits that call."""
        lease = self.lease
        wide = lease.scope is LeaseScope.GROUP
        return (
            lease.calls_left > 0
            and (not wide or group == lease.group)
            and lease.scope_digest == scope_digest(subject, lease.group if wide else "", surroundings)
            and (lease.scope is not LeaseScope.HOST or page_host(subject.tool, subject.input) == lease.host)
            and (lease.scope is not LeaseScope.INPUT or digest(subject.input) == lease.input_digest)
            and (lease.scope is not LeaseScope.FOLDER or self._in_folder(subject.input))
            # This runs on the event loop: of a value that is too large for that a person is asked.
            and (
                lease.condition is None
                or (
                    not needs_process(lease.condition, subject.input)
                    and accepts(lease.condition, subject.input)
                )
            )
            and self.approved_risk.at_least(risk)
            and not outgrows(input_bytes(subject.input), self.approved_bytes)
        )

    def _in_folder(self, input: JsonObject) -> bool:
        # This looks at files on the event loop: of a large input a person is asked.
        same = path_fields(input) == self.path_fields and not is_large(input)
        return same and lies_within(input, self.lease.folder, self.app_root)


class LeaseStore:
    """The leases of one kernel, in memory, among the other earlier answers."""

    def __init__(
        self,
        clock: Clock,
        on_change: OnLeaseChange = lambda move, lease, by: None,
        is_alive: IsAlive = is_caller_alive,
        answers: EarlierAnswers | None = None,
    ) -> None:
        self._clock = clock
        self._on_change = on_change
        self._is_alive = is_alive
        self._answers = answers or EarlierAnswers(clock, is_alive)
        self._panic_count = 0
        self._changed = anyio.Event()

    def add(self, request: ApprovalRequest, terms: LeaseTerms) -> Lease:
        """Add and return the lease of an approval. The approved call is the first of `terms.calls`."""
        now = self._clock.now()
        forever = terms.minutes == UNTIL_LEFT
        wide = terms.scope is LeaseScope.GROUP
        lease = Lease(
            id=secrets.token_hex(8),
            caller=request.caller,
            tool=request.tool,
            scope_digest=scope_digest(
                request.subject, request.group if wide else "", surroundings_of(request.seals)
            ),
            from_request=request.id,
            calls_left=terms.calls - 1,
            expires_at=0.0 if forever else now + terms.minutes * 60.0,
            created_at=now,
            scope=terms.scope,
            group=request.group,
            host=request.host if terms.scope is LeaseScope.HOST else "",
            folder=request.folder if terms.scope is LeaseScope.FOLDER else "",
            input_digest=digest(request.subject.input) if terms.scope is LeaseScope.INPUT else "",
            condition=terms.condition,
            used=1,
            last_used=now,
        )
        self._answers.put(
            HeldLease(
                id=lease.id,
                key=(request.subject.caller, ""),
                until=FOREVER if forever else self._clock.monotonic() + terms.minutes * 60.0,
                lease=lease,
                approved_bytes=input_bytes(request.subject.input),
                approved_risk=request.risk,
                app_root=request.app_root,
                path_fields=path_fields(request.subject.input),
                panic_count=self._panic_count,
            )
        )
        self._publish_change(LeaseChange.MADE, lease)
        return lease

    def lease_from_request(self, ask: Ask) -> str | None:
        """Add the lease that the answer of `ask` makes, and return its id; None where it makes none."""
        answer = ask.answer
        if ask.state is not RequestState.APPROVED or answer is None or answer.choice != Choice.LEASE:
            return None
        return None if answer.lease is None else self.add(ask.request, answer.lease).id

    def match(self, subject: Subject, risk: Risk, group: str = "", surroundings: str = "") -> Lease | None:
        """Return a lease that covers the subject and has calls left; None where a person has to be asked.

        `group` is the tool's exclusive group, `surroundings` the digest of the working folder that a partial
        seal depends on. A call of higher risk than the approved one is not covered.
        """
        self._end_leases()
        held_by = self._answers.to_caller(HeldLease, subject.caller)
        return next((held.lease for held in held_by if held.covers(subject, risk, group, surroundings)), None)

    def take(self, lease_id: str) -> Lease | None:
        """Use one call of a lease. Returns the lease as it is then; None where it has ended or has no calls
        left."""
        held = self._find(lease_id)
        if held is None or held.lease.calls_left <= 0:
            return None
        held.lease = msgspec.structs.replace(
            held.lease,
            calls_left=held.lease.calls_left - 1,
            used=held.lease.used + 1,
            last_used=self._clock.now(),
        )
        self._publish_change(LeaseChange.USED, held.lease)
        return held.lease

    def is_active(self, lease_id: str) -> bool:
        """Return whether the lease has neither ended nor been revoked. One without calls left is active, too:
        grants that were drawn from it stay valid."""
        return self._find(lease_id) is not None

    def revoke(self, lease_id: str) -> bool:
        """End one lease. Returns False where it had ended before."""
        return self.withdraw(lease_id) is not None

    def withdraw(self, lease_id: str, by: str = "") -> HeldLease | None:
        """End one lease, and return what `restore` needs; None where it had ended before. `by` names the
        console."""
        held = self._find(lease_id)
        if held is not None:
            self._answers.remove(held)
            self._publish_change(LeaseChange.REVOKED, held.lease, by)
        return held

    def restore(self, held: HeldLease, by: str = "") -> str:
        """Undo a revocation: the lease goes on with the deadline and calls that it had left. Returns why it
        does not, or an empty text."""
        # A person who stopped everything ended every permission from before; undoing an older revocation
        # must not bring one of them back.
        if held.panic_count != self._panic_count:
            return "everything was stopped since then, and a lease from before that does not come back"
        if self._has_ended(held):
            return "the lease would have ended by now"
        self._answers.put(held)
        self._publish_change(LeaseChange.RESTORED, held.lease, by)
        return ""

    def end_tool(self, tool: str) -> None:
        """End every lease that was made on a call of that tool."""
        for held in self._active_leases():
            if held.lease.tool == tool:
                self._answers.remove(held)
                self._publish_change(LeaseChange.ENDED, held.lease)

    def revoke_all(self) -> int:
        """End every lease. Returns how many of them still covered a call."""
        # Leases without calls left end as well: a call drawn from one may hold a grant and not have started.
        ended, live = len(self.active()), self._active_leases()
        self._panic_count += 1
        for held in live:
            self._answers.remove(held)
        for held in live:
            self._publish_change(LeaseChange.REVOKED, held.lease)
        return ended

    def active(self) -> tuple[Lease, ...]:
        """Return the leases that have calls left, oldest first."""
        return tuple(held.lease for held in self._active_leases() if held.lease.calls_left > 0)

    def reserving_lease(self, group: str, caller: str) -> Lease | None:
        """Return the lease that reserves the exclusive group for another caller than `caller` (a
        `Caller.key`); None where the group is free for it. No group is reserved for a caller whose process
        has ended."""
        # Where several callers hold leases of one group, the oldest lease wins: otherwise each caller would
        # wait for the other.
        kept = (lease for lease in self.active() if lease.group == group and self._may_call(lease.caller))
        oldest = next(kept, None)
        return None if oldest is None or oldest.caller.key == caller else oldest

    async def wait_until_free(self, group: str, caller: str) -> None:
        """Wait until no other caller's lease reserves the group."""
        # Woken at least once a second: the end of the other caller's process is no event, it has to be
        # looked up.
        while self.reserving_lease(group, caller) is not None:
            await self._wait_for_change(self._clock.monotonic() + LIVENESS_CHECK_SECONDS)

    async def watch(self) -> None:
        """Publish the end of leases that end by themselves. Runs until cancelled, in the kernel's task
        group."""
        while True:
            await self._wait_for_change()
            self._active_leases()

    async def _wait_for_change(self, until: float = FOREVER) -> None:
        """Wait until a lease has changed, one may have ended by itself, or the monotonic time `until` has
        come."""
        # The event of now: `_publish_change` sets it and puts a new one in its place, so several tasks can
        # wait for the same change.
        changed = self._changed
        next_check = self._clock.monotonic() + LIVENESS_CHECK_SECONDS
        held_now = self._answers.all(HeldLease)
        ends = (next_check if held.until == FOREVER else held.until for held in held_now)
        await wait_until(self._clock, changed, min((until, *ends)))

    def _may_call(self, caller: Caller) -> bool:
        """Return whether the caller may make further calls. A caller without a known process always may."""
        return caller.pid <= 0 or self._is_alive(caller)

    def _find(self, lease_id: str) -> HeldLease | None:
        """Return the lease with that id; None if it has ended."""
        self._end_leases()
        return self._answers.get(HeldLease, lease_id)

    def _active_leases(self) -> tuple[HeldLease, ...]:
        """Return the leases that have not ended."""
        self._end_leases()
        return self._answers.all(HeldLease)

    def _end_leases(self) -> None:
        """Remove the leases that have ended, and publish their end."""
        for held in self._answers.all(HeldLease):
            if self._has_ended(held):
                self._answers.remove(held)
                self._publish_change(LeaseChange.ENDED, held.lease)

    def _has_ended(self, held: HeldLease) -> bool:
        if held.until == FOREVER:
            return not self._is_alive(held.lease.caller)
        return self._clock.monotonic() >= held.until

    def _publish_change(self, move: LeaseChange, lease: Lease, by: str = "") -> None:
        self._changed.set()
        self._changed = anyio.Event()
        self._on_change(move, lease, by)


def page_host(tool: str, input: JsonObject) -> str:
    """Return the host name or address of a web tool's `url`, in lower case; a lease may hold for it alone.

    Empty for other tools, for schemes other than http and https, and for an address with a user's name or
    with characters that programs read differently.
    """
    # Where this parser and the program that opens the address could see two different hosts, the answer is
    # empty, and then a lease for a host covers nothing.
    url = input.get("url")
    if not tool.startswith(WEB_TOOLS) or not isinstance(url, str) or not _PLAIN.fullmatch(url):
        return ""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or not _NAME.fullmatch(host):
        return ""
    return host


def _condition_fault(request: ApprovalRequest, condition: JsonObject) -> str:
    """Return why a condition makes no lease: it is too large, cannot be checked, or this call fails it."""
    try:
        if len(canonical_json(condition)) > MAX_CONDITION_BYTES:
            return f"the condition is larger than {MAX_CONDITION_BYTES} bytes"
    except (ValueError, TypeError, RecursionError):
        return "the condition is not JSON"
    faults = [f"{pointer or '/'}: {why}" for pointer, why in schema_faults(condition)]
    if faults:
        return f"the condition cannot be used: {'; '.join(faults)}"
    if needs_process(condition, request.subject.input):
        return "the input is too large for a lease with a condition"
    if not accepts(condition, request.subject.input):
        return "this call does not meet the condition itself"
    return ""


def outgrows(size: int, approved: int) -> bool:
    return size > approved * MAX_GROWTH_FACTOR and size > approved + MAX_GROWTH_BYTES
