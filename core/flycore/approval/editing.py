"""Another input in a waiting request's place. Nothing is decided by this: the card is another one."""

from __future__ import annotations

import msgspec

from flycore.approval.book import RequestStore
from flycore.approval.clock import Clock
from flycore.approval.machine import check_request, rejected_decision
from flycore.approval.pending import WaiterRegistry
from flycore.model.approval import Ask, Outcome
from flycore.model.json import JsonObject, canonical_json


async def apply_edit(
    book: RequestStore, pending: WaiterRegistry, clock: Clock, request_id: str, shown: str, input: JsonObject
) -> Ask | Outcome:
    """The ask as it waits with that input, made anew by a call that is still there; or why not."""
    waits, ask = pending.get(request_id), book.find(request_id)
    if waits is None or ask is None:
        return rejected_decision("there is no such request")
    if ask.request.subject_digest != shown:
        return rejected_decision("the request is not the one that was shown")
    if ask.request.input_json != canonical_json(ask.request.subject.input):
        return rejected_decision("an input with masked parts cannot be edited")
    if waits.revise is None:
        return rejected_decision("the caller is not there: it can be edited when it has come back")
    fresh = await waits.revise(input)
    if isinstance(fresh, str):
        return rejected_decision(fresh)
    check_request(fresh)
    request = msgspec.structs.replace(book.stamp(fresh, clock.now()), id=request_id, edited=True)
    return book.replace(request, shown) or rejected_decision("the request has changed meanwhile")
