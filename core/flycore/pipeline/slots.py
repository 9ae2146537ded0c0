"""Step 10: an approved call waits for its exclusive group and for its place at a process or MCP server."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack

from flycore.approval.desktop_control import controls_desktop
from flycore.model.enums import Kind, Phase
from flycore.model.json import digest
from flycore.pipeline.call import Call
from flycore.pipeline.context import RootState, Slot, SlotContext
from flycore.pipeline.prepare import Prepared
from flycore.runners.mcp.call import McpCall
from flycore.runners.pool import ProcessKey


async def enter_group(slots: SlotContext, call: Call, group: str, stack: AsyncExitStack) -> bool:
    """Hold the group until `stack` is closed. Returns whether that took waiting."""
    caller = call.request.caller.key
    began, waited = call.start_wait(), False
    while True:
        waited = _report_wait(slots, call, group) or waited
        await slots.leases.wait_until_free(group, caller)
        async with AsyncExitStack() as entered:
            await entered.enter_async_context(slots.groups.acquire(group, call.request.call_id))
            # Another caller may have got a lease on the group while this call waited for the lock: then the
            # lock is released, so that the lease's own calls can run, and the wait begins again.
            if slots.leases.reserving_lease(group, caller) is None:
                stack.push_async_callback(entered.pop_all().aclose)
                break
    call.end_wait(began)
    return waited


def _report_wait(slots: SlotContext, call: Call, group: str) -> bool:
    """Report what the call waits for; False where it does not have to wait."""
    lease = slots.leases.reserving_lease(group, call.request.caller.key)
    if lease is not None:
        until = f"until {_time_of_day(lease.expires_at)}" if lease.expires_at else "until it leaves"
        words = f"waiting: a lease reserves the group {group} for {lease.caller}, {until}"
    elif slots.groups.busy(group):
        words = f"waiting: another call holds the group {group}"
    else:
        return False
    call.report(Phase.WAITING_GROUP, words)
    return True


def _time_of_day(unix: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(unix))


_INPUT_REFERENCE = "${input."


async def acquire_slot(
    slots: SlotContext, call: Call, prepared: Prepared, grant_id: str, stack: AsyncExitStack
) -> tuple[Slot | None, bool]:
    """Hold the tool's exclusive group, and a place at a persistent process or at an MCP server's session, for
    as long as `stack` is open.

    Returns the place, None where the call gets a process of its own, and whether that took waiting.
    """
    group = prepared.target.capability.exclusive
    waited = False
    # A grant is good for a minute; waiting for another caller's call must not use that up.
    with slots.grants.paused(grant_id):
        # A step whose plan holds the group already would wait for its own plan for ever.
        if group is not None and not slots.groups.holder(group, call.request.parent_call_id):
            waited = await enter_group(slots, call, group, stack)
        # The group comes first, for every call: two calls that took group and process in different orders
        # would wait for each other for ever.
        place, in_line = await _take_process_slot(slots, call, prepared, stack)
    return place, waited or in_line


async def _take_process_slot(
    slots: SlotContext, call: Call, prepared: Prepared, stack: AsyncExitStack
) -> tuple[Slot | None, bool]:
    entry = prepared.target.entry
    upstream = entry.kind is Kind.MCP
    if not upstream and not uses_persistent_process(prepared):
        return None, False
    waited: list[str] = []

    def waits(words: str) -> None:
        waited.append(words)
        call.report(Phase.WAITING_GROUP, words)

    began = call.start_wait()
    place: Slot
    if upstream:
        place = await stack.enter_async_context(
            slots.mcp_servers.hold(entry.id, mcp_call_of(prepared), waits)
        )
    else:
        hold = slots.processes.slot(
            instance_key(prepared), instances=entry.instances, idle_ms=entry.idle_ms, on_wait=waits
        )
        place = await stack.enter_async_context(hold)
    if waited:
        call.end_wait(began)
    return place, bool(waited)


def mcp_call_of(prepared: Prepared) -> McpCall:
    """The call to the MCP server, with the digests of what was approved."""
    capability = prepared.target.capability
    return McpCall(
        tool=capability.upstream,
        definition=capability.definition,
        program=prepared.seal.digest,
        level=prepared.sandbox.level,
    )


def uses_persistent_process(prepared: Prepared) -> bool:
    """Whether the call may go to a process that serves more than one call."""
    entry = prepared.target.entry
    permissions = entry.permissions
    # A secret would outlive its call in such a process, and a process that has the desktop could press keys
    # while a later card waits for an approval.
    if entry.kind is not Kind.PERSISTENT or permissions.secrets or permissions.desktop:
        return False
    if controls_desktop(prepared.target.capability.name):
        return False
    # A permission that depends on the input would hold for later inputs as well.
    return not any(_INPUT_REFERENCE in path for path in (*permissions.read, *permissions.write))


def instance_key(prepared: Prepared) -> ProcessKey:
    """The key of the process that may serve the call. All of it is part of what an approval is bound to."""
    subject = prepared.subject
    return ProcessKey(
        sidecar=prepared.target.entry.id,
        program=digest([subject.seal, dict(subject.delegates)]),
        entry=subject.entry,
        permissions=subject.permissions,
        level=subject.level.value,
        caller=subject.caller,
    )


def key_is_current(root_state: RootState, key: ProcessKey) -> bool:
    """Whether a process of that key may serve another call: its entry is unchanged, enabled and trusted, and
    its level is still the one of new processes."""
    entry, view = root_state.entries.get(key.sidecar), root_state.catalog.sidecar(key.sidecar)
    if entry is None or not entry.enabled or entry.digest != key.entry:
        return False
    confined = view.stability.evidence.sandbox if view is not None else None
    return entry.id in root_state.files.trusted and confined is not None and confined.level == key.level
