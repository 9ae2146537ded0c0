"""Step 7: the exclusive group, kept for a caller by a lease, held by one call at a time."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack

from flycore.executive.call import Call
from flycore.executive.rooms import SlotContext
from flycore.model.enums import Phase


async def enter_group(slots: SlotContext, call: Call, group: str, stack: AsyncExitStack) -> bool:
    """Hold the group until `stack` is closed; whether that took waiting."""
    caller = call.request.caller.key
    began, waited = call.start_wait(), False
    while True:
        waited = _report_wait(slots, call, group) or waited
        await slots.leases.wait_until_free(group, caller)
        async with AsyncExitStack() as entered:
            await entered.enter_async_context(slots.groups.acquire(group, call.request.call_id))
            if slots.leases.reserving_lease(group, caller) is None:
                stack.push_async_callback(entered.pop_all().aclose)
                break
    call.end_wait(began)
    return waited


def _report_wait(slots: SlotContext, call: Call, group: str) -> bool:
    """Tell for whom the call waits; False where it does not have to."""
    lease = slots.leases.reserving_lease(group, call.request.caller.key)
    if lease is not None:
        until = f"until {_time_of_day(lease.expires_at)}" if lease.expires_at else "until it leaves"
        words = f"waiting: a lease keeps the group {group} for {lease.caller}, {until}"
    elif slots.groups.busy(group):
        words = f"waiting: another call holds the group {group}"
    else:
        return False
    call.report(Phase.WAITING_GROUP, words)
    return True


def _time_of_day(unix: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(unix))
