"""The call pipeline, from top to bottom: resolve, check, prepare (seal, look, policy), gate, permit,
lock, look again, start, run, check, record."""

from __future__ import annotations

from contextlib import AsyncExitStack, nullcontext
from functools import partial

from flycore.approval.loops import Attempt
from flycore.executive import finish
from flycore.executive.activity import ActivityBook
from flycore.executive.arrival import Arrival, arrived, attempt_of
from flycore.executive.ask import Permit, permit
from flycore.executive.call import Announce, Call, Tell
from flycore.executive.changes import Changes, changes
from flycore.executive.checking import NO_JSON, checked_input, is_json
from flycore.executive.closed import closed, over_quota, panicked
from flycore.executive.frame import walked
from flycore.executive.group import enter_group
from flycore.executive.page_look import with_page
from flycore.executive.perform import perform
from flycore.executive.prepare import Prepared, masks_for, prepare
from flycore.executive.resolve import Target, resolve
from flycore.executive.rooms import CallPlace, Rooms
from flycore.executive.staying import take_place
from flycore.executive.stop import Stop, failed, refused
from flycore.model.approval import Preview
from flycore.model.call import CallRequest, ToolResult
from flycore.model.canonical import JsonObject, canonical_json
from flycore.model.enums import Code, Risk
from flycore.sandbox.masks import Masks

LINES_LOGGED = 100
"""Lines of a difference in the log; the card has all of them."""
LOOKS = 2
"""How often a call is asked for: once, and once more when something changed after the first answer."""


async def execute(
    rooms: Rooms, book: ActivityBook, request: CallRequest, tell: Tell | None, announce: Announce | None
) -> ToolResult:
    """Run one call; see `walked` for how it ends."""
    call = Call(request, rooms.clock, book, tell)
    return await walked(rooms, book, call, _Walk(rooms, call), announce)


class _Walk:
    """One call's way through the rooms, and what was known when it ended."""

    def __init__(self, rooms: Rooms, call: Call) -> None:
        self._rooms = rooms
        self._call = call
        self.sidecar: str | None = None
        self.prepared: Prepared | None = None
        self.masks = Masks({})
        self._arrival = Arrival()

    def attempt(self, result: ToolResult) -> Attempt:
        """What the loop guard is told of the call; nothing in it holds a secret."""
        return attempt_of(self._call, self._arrival, result)

    async def result(self) -> ToolResult:
        """Walk to the end."""
        rooms, call = self._rooms, self._call
        await rooms.upstreams.ready(call.request.tool)
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
        checked = checked_input(target.capability, call.request.input, self.masks)
        if isinstance(checked, Stop):
            return self._stopped(self._closed_or(checked), call.request.input)
        self._called(checked)
        prepared = await self._prepare(target, checked)
        if isinstance(prepared, Stop):
            return self.ended(self._closed_or(prepared))
        shut = closed(rooms, call)
        if shut is not None:
            return self.ended(shut)
        rooms.note_rules(prepared.verdict.rules)
        key, step = call.request.caller.key, call.request.step is not None
        counted = (
            Risk.LOW if prepared.target.decided else prepared.risk
        )  # an agent's session is one long shell
        over = rooms.quota.admit(key, counted, step=step)
        if over is not None:
            return self.ended(over_quota(over))
        with nullcontext() if step else rooms.quota.running(key):
            return await self._permitted(prepared)

    async def _permitted(self, prepared: Prepared) -> ToolResult:
        """Ask, lock, look again; once more with the difference where something changed meanwhile."""
        prepared = await self._with_page(prepared)
        changed = Changes()
        for _ in range(LOOKS):
            again = partial(self._with_input, prepared.target, prepared.preview)
            granted = await permit(self._rooms, self._call, prepared, again, changed.lines)
            if isinstance(granted, Stop):
                return self.ended(granted)
            if granted.edited is not None:
                self._call.edited = True
                edited = await again(granted.edited)
                if isinstance(edited, Stop):
                    return self.ended(edited)
                prepared = self.prepared = edited
            ran = await self._locked(prepared, granted)
            if isinstance(ran, ToolResult):
                return self._told_of_edit(ran, prepared) if self._call.edited else ran
            if isinstance(ran, Stop):
                return self.ended(ran)
            changed = changes(prepared, ran)
            self._stale(prepared, ran, changed)
            prepared = ran
        hint = f"last of all: {', '.join(changed.things)}"
        return self.ended(refused(Code.APPROVAL_STALE, "it kept changing after it was approved", hint))

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
        if group is None or self._rooms.groups.held_by(group, self._call.request.parent_call_id):
            return False
        with self._rooms.queue.grants.standing_still(granted.grant_id):
            return await enter_group(self._rooms, self._call, group, stack)

    async def _run(self, prepared: Prepared, granted: Permit, place: CallPlace | None) -> ToolResult | Stop:
        outcome = await perform(self._rooms, self._call, prepared, granted, place)
        if isinstance(outcome, Stop):
            return outcome
        result = finish.ran(self._call, prepared, outcome)
        said = result.error.message if result.error is not None else ""
        if prepared.target.sidecar is not None:
            self._rooms.note_run(prepared.target.sidecar, outcome.code, said, result.stderr_tail)
        return result

    async def _with_input(
        self, target: Target, earlier: Preview | None, input: JsonObject
    ) -> Prepared | Stop:
        """The same call with an input of the person's, checked like any."""
        if not is_json(input):
            return failed(Code.INVALID_INPUT, NO_JSON)
        checked = checked_input(target.capability, input, self.masks)
        if isinstance(checked, Stop):
            return checked
        rooms = self._rooms
        prepared = await prepare(rooms, rooms.world(), self._call.request, target, checked, earlier)
        if isinstance(prepared, Stop):
            return prepared
        return await with_page(rooms, self._call.request, prepared, earlier)

    def _told_of_edit(self, result: ToolResult, prepared: Prepared) -> ToolResult:
        shown = canonical_json(prepared.masks.json(prepared.input))
        return finish.with_warning(result, f"a person changed the input before approving it: {shown}")

    async def _look_again(self, prepared: Prepared) -> Prepared | Stop:
        world = self._rooms.world()
        target = resolve(world, self._call.request.tool, self._rooms.blocks)
        if isinstance(target, Stop):
            return target
        again = await self._prepare(target, prepared.input, prepared.preview)
        return again if isinstance(again, Stop) else await self._with_page(again, prepared.preview)

    async def _with_page(self, prepared: Prepared, earlier: Preview | None = None) -> Prepared:
        """Looked at only once the call is taken, so that refused ones start nothing."""
        self.prepared = await with_page(self._rooms, self._call.request, prepared, earlier)
        return self.prepared

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
        self._arrival = arrived(self._rooms, self._call, input, self.masks, self.sidecar or "")

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
        return self.ended(stop)

    def ended(self, stop: Stop) -> ToolResult:
        """The result of a call that ends here."""
        return finish.stopped(self._call, stop, self.sidecar, self.masks)


def _covers(approved: Prepared, now: Prepared) -> bool:
    """Whether a decision on the one is a decision on the other."""
    return approved.subject_digest == now.subject_digest and approved.risk.at_least(now.risk)
