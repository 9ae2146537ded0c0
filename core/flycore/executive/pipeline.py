"""The call pipeline, from top to bottom: resolve, check, prepare (seal, look, policy), gate, permit,
lock, look again, start, run, check, record."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from functools import partial

import anyio

from flycore.approval.loops import Attempt
from flycore.audit import events as audit_events
from flycore.executive import finish
from flycore.executive.activity import ActivityBook
from flycore.executive.ask import Permit, permit
from flycore.executive.call import Announce, Call, Tell
from flycore.executive.changes import Changes, changes
from flycore.executive.checking import NO_JSON, checked_input, is_json
from flycore.executive.closed import closed, panicked
from flycore.executive.perform import perform
from flycore.executive.prepare import Prepared, masks_for, prepare
from flycore.executive.resolve import Target, resolve
from flycore.executive.rooms import Rooms
from flycore.executive.staying import take_place
from flycore.executive.stop import Stop, failed, refused
from flycore.model.approval import Preview
from flycore.model.call import CallRequest, ToolResult
from flycore.model.canonical import JsonObject, canonical_json, text_digest
from flycore.model.enums import Code, Phase, Status
from flycore.model.errors import AuditUnwritable
from flycore.runners.pool import Place
from flycore.sandbox.masks import Masks

LINES_LOGGED = 100
"""Lines of a difference in the log; the card has all of them."""
LOOKS = 2
"""How often a call is asked for: once, and once more when something changed after the first answer."""


async def execute(
    rooms: Rooms, book: ActivityBook, request: CallRequest, tell: Tell | None, announce: Announce | None
) -> ToolResult:
    """Run one call. Every end is a ToolResult, a fault of our own as well; only cancelling from outside
    raises, after the call's tree has ended and its line is written."""
    call = Call(request, rooms.clock, book, tell)
    walk = _Walk(rooms, call)
    result: ToolResult | None = None
    try:
        with anyio.CancelScope() as scope:
            book.begin(request, scope, "")
            try:
                if announce is not None:
                    await announce()
                result = await walk.result()
                rooms.loops.note(walk.attempt(result))
            except AuditUnwritable as error:
                result = finish.stopped(call, _unwritable(error), walk.sidecar, walk.masks)
            except Exception as error:  # noqa: BLE001 - between one broken call and everybody else's
                result = finish.stopped(call, _fault(error), walk.sidecar, walk.masks)
    finally:
        if result is None:
            stop = failed(Code.CANCELLED, "the call was cancelled")
            if book.panicked(request.call_id):
                stop = panicked(rooms, began=call.began)
            result = finish.stopped(call, stop, walk.sidecar, walk.masks)
        result = _recorded(rooms, call, result, walk)
        book.finish(result)
    return result


def _recorded(rooms: Rooms, call: Call, result: ToolResult, walk: _Walk) -> ToolResult:
    try:
        finish.record(rooms, call, result, walk.prepared, walk.masks)
    except AuditUnwritable as error:
        return finish.with_warning(result, f"the audit log did not take this result: {error}")
    return result


def _fault(error: Exception) -> Stop:
    return Stop(
        status=Status.FAILED,
        code=Code.FAILED,
        message=f"a fault inside flytui ({type(error).__name__}); the call may have run",
        hint="flytui audit tail shows how far it came; please report it",
        details={"code": "internal"},
    )


def _unwritable(error: AuditUnwritable) -> Stop:
    return failed(
        Code.FAILED,
        "nothing runs while the audit log cannot be written",
        "make room or mend the log: flytui audit verify",
        fault="audit-unwritable",
        cause=error.cause,
    )


class _Walk:
    """One call's way through the rooms, and what was known when it ended."""

    def __init__(self, rooms: Rooms, call: Call) -> None:
        self._rooms = rooms
        self._call = call
        self.sidecar: str | None = None
        self.prepared: Prepared | None = None
        self.masks = Masks({})
        self._shown = ""
        self._input_digest = ""

    def attempt(self, result: ToolResult) -> Attempt:
        """What the loop guard is told of the call; nothing in it holds a secret."""
        error = result.error
        return Attempt(
            caller=self._call.request.caller,
            tool=self._call.request.tool,
            input_digest=self._input_digest,
            input_text=self._shown,
            status=result.status,
            code=error.code if error is not None else "",
            message=error.message if error is not None else "",
        )

    async def result(self) -> ToolResult:
        """Walk to the end."""
        rooms, call = self._rooms, self._call
        world = rooms.world()
        view = world.index.get(call.request.tool)
        self.sidecar = view.sidecar if view is not None else None
        entry = world.entries.get(self.sidecar or "")
        if entry is not None:
            self.masks = masks_for(entry, rooms.environ)
        if not is_json(call.request.input):
            return self._stopped(failed(Code.INVALID_INPUT, NO_JSON), {})
        target = resolve(world, call.request.tool, rooms.blocks)
        if isinstance(target, Stop):
            return self._stopped(self._closed_or(target), call.request.input)
        checked = checked_input(target, call.request.input, self.masks)
        if isinstance(checked, Stop):
            return self._stopped(self._closed_or(checked), call.request.input)
        self._called(checked)
        prepared = await self._prepare(target, checked)
        if isinstance(prepared, Stop):
            return self._ended(self._closed_or(prepared))
        shut = closed(rooms, call)
        if shut is not None:
            return self._ended(shut)
        rooms.note_rules(prepared.verdict.rules)
        over = rooms.quota.admit(call.request.caller.key, prepared.risk)
        if over is not None:
            return self._ended(refused(Code.QUOTA, over.message, freeInSeconds=over.free_in))
        with rooms.quota.running(call.request.caller.key):
            return await self._permitted(prepared)

    async def _permitted(self, prepared: Prepared) -> ToolResult:
        """Ask, lock, look again; once more with the difference where something changed meanwhile."""
        changed = Changes()
        for _ in range(LOOKS):
            again = partial(self._with_input, prepared.target, prepared.preview)
            granted = await permit(self._rooms, self._call, prepared, again, changed.lines)
            if isinstance(granted, Stop):
                return self._ended(granted)
            if granted.edited is not None:
                self._call.edited = True
                edited = await again(granted.edited)
                if isinstance(edited, Stop):
                    return self._ended(edited)
                prepared = self.prepared = edited
            ran = await self._locked(prepared, granted)
            if isinstance(ran, ToolResult):
                return self._told_of_edit(ran, prepared) if self._call.edited else ran
            if isinstance(ran, Stop):
                return self._ended(ran)
            changed = changes(prepared, ran)
            self._stale(prepared, ran, changed)
            prepared = ran
        hint = f"last of all: {', '.join(changed.things)}"
        return self._ended(refused(Code.APPROVAL_STALE, "it kept changing after it was approved", hint))

    async def _locked(self, prepared: Prepared, granted: Permit) -> ToolResult | Prepared | Stop:
        """Run inside the exclusive group; a Prepared comes back when it is not what was approved."""
        rooms = self._rooms
        async with AsyncExitStack() as stack:
            waited = await self._enter_group(stack, prepared, granted)
            place, in_line = await take_place(rooms, self._call, prepared, granted.grant_id, stack)
            waited = waited or in_line
            if granted.grant_id or waited:
                again = await self._look_again(prepared)
                if isinstance(again, Stop) or not _covers(prepared, again):
                    rooms.queue.grants.void(granted.grant_id)
                    return again
            if granted.grant_id:
                redeemed = rooms.queue.grants.redeem(granted.grant_id, prepared.subject_digest)
                if not redeemed.accepted and not rooms.stopped():
                    return refused(Code.APPROVAL_STALE, redeemed.why_not)
            if rooms.stopped():
                return panicked(rooms, began=False)
            return await self._run(prepared, granted, place)

    async def _enter_group(self, stack: AsyncExitStack, prepared: Prepared, granted: Permit) -> bool:
        """Hold the tool's exclusive group; whether that took waiting. The grant's clock stands still."""
        group = prepared.target.capability.exclusive
        if group is None:
            return False
        rooms, caller = self._rooms, self._call.request.caller.key
        began, waited = self._call.wait_from(), False
        with rooms.queue.grants.standing_still(granted.grant_id):
            while True:
                waited = self._say_group(group, caller) or waited
                await rooms.queue.leases.freed(group, caller)
                async with AsyncExitStack() as entered:
                    await entered.enter_async_context(rooms.groups.hold(group))
                    if rooms.queue.leases.keeper(group, caller) is None:
                        stack.push_async_callback(entered.pop_all().aclose)
                        break
        self._call.waited_since(began)
        return waited

    def _say_group(self, group: str, caller: str) -> bool:
        """Tell for whom the call waits; False where it does not have to."""
        lease = self._rooms.queue.leases.keeper(group, caller)
        if lease is not None:
            until = f"until {_time_of_day(lease.expires_at)}" if lease.expires_at else "until it leaves"
            words = f"waiting: a lease keeps the group {group} for {lease.caller}, {until}"
        elif self._rooms.groups.busy(group):
            words = f"waiting: another call holds the group {group}"
        else:
            return False
        self._call.at(Phase.WAITING_GROUP, words)
        return True

    async def _run(self, prepared: Prepared, granted: Permit, place: Place | None) -> ToolResult | Stop:
        outcome = await perform(self._rooms, self._call, prepared, granted, place)
        if isinstance(outcome, Stop):
            return outcome
        result = finish.ran(self._call, prepared, outcome)
        said = result.error.message if result.error is not None else ""
        self._rooms.note_run(prepared.target.entry.id, outcome.code, said, result.stderr_tail)
        return result

    async def _with_input(
        self, target: Target, earlier: Preview | None, input: JsonObject
    ) -> Prepared | Stop:
        """The same call with an input of the person's, checked like any."""
        if not is_json(input):
            return failed(Code.INVALID_INPUT, NO_JSON)
        checked = checked_input(target, input, self.masks)
        if isinstance(checked, Stop):
            return checked
        rooms = self._rooms
        return await prepare(rooms, rooms.world(), self._call.request, target, checked, earlier)

    def _told_of_edit(self, result: ToolResult, prepared: Prepared) -> ToolResult:
        shown = canonical_json(prepared.masks.json(prepared.input))
        return finish.with_warning(result, f"a person changed the input before approving it: {shown}")

    async def _look_again(self, prepared: Prepared) -> Prepared | Stop:
        world = self._rooms.world()
        target = resolve(world, self._call.request.tool, self._rooms.blocks)
        if isinstance(target, Stop):
            return target
        return await self._prepare(target, prepared.input, prepared.preview)

    async def _prepare(
        self, target: Target, input: JsonObject, earlier: Preview | None = None
    ) -> Prepared | Stop:
        rooms = self._rooms
        prepared = await prepare(rooms, rooms.world(), self._call.request, target, input, earlier)
        if isinstance(prepared, Stop):
            return prepared
        self.prepared, self.masks = prepared, prepared.masks
        return prepared

    def _called(self, input: JsonObject) -> None:
        text = canonical_json(input)
        masked = self.masks.json(input)
        self._input_digest = text_digest(text)
        fields = audit_events.tool_called(self._call.request, masked, input_digest=self._input_digest)
        self._rooms.audit.append(audit_events.TOOL_CALLED, self.masks.json(fields))
        self._shown = text if masked == input else canonical_json(masked)
        self._call.show(self.sidecar or "", self._shown)

    def _stale(self, before: Prepared, after: Prepared, changed: Changes) -> None:
        fields: JsonObject = {
            "callId": self._call.request.call_id,
            "tool": self._call.request.tool,
            "subject": before.subject_digest,
            "now": after.subject_digest,
            "changes": list(changed.things),
            "difference": list(changed.lines[:LINES_LOGGED]),
        }
        self._rooms.audit.append("APPROVAL_STALE", fields)

    def _closed_or(self, stop: Stop) -> Stop:
        """What is told of a call that ends here anyway: a denial by policy stands, else that nothing is
        taken from this caller now."""
        return stop if stop.code == Code.POLICY else closed(self._rooms, self._call) or stop

    def _stopped(self, stop: Stop, input: JsonObject) -> ToolResult:
        self._called(input)
        return self._ended(stop)

    def _ended(self, stop: Stop) -> ToolResult:
        return finish.stopped(self._call, stop, self.sidecar, self.masks)


def _covers(approved: Prepared, now: Prepared) -> bool:
    """Whether a decision on the one is a decision on the other."""
    return approved.subject_digest == now.subject_digest and approved.risk.at_least(now.risk)


def _time_of_day(unix: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(unix))
