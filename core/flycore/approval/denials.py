"""Denials that hold for some minutes, so that a retrying agent does not ask the person again."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import msgspec

from flycore.model.approval import ApprovalRequest, Ask
from flycore.model.clock import Clock

MAX_DENIALS = 1_000
"""Denials that are kept; beyond, the oldest is forgotten."""


class CachedDenial(NamedTuple):
    """A denial that holds."""

    ask: Ask
    """The request that the person denied."""
    until: float
    """Monotonic time in seconds."""


class DenialCache:
    """The denials that hold, by caller and tool. The input does not count, because a denied agent often tries
    again with another one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._denials: OrderedDict[tuple[str, str], CachedDenial] = OrderedDict()

    def remember(self, ask: Ask) -> None:
        """Keep the denial of `ask` for the minutes that its answer names; without minutes, keep nothing."""
        minutes = ask.answer.deny_minutes if ask.answer is not None else 0
        if minutes <= 0:
            return
        key = _key(ask.request)
        self._denials.pop(key, None)
        self._denials[key] = CachedDenial(ask, self._clock.monotonic() + minutes * 60.0)
        if len(self._denials) > MAX_DENIALS:
            self._denials.popitem(last=False)

    def answer(self, request: ApprovalRequest) -> Ask | None:
        """Return `request` as denied by the denial that holds; None where a person has to be asked."""
        key = _key(request)
        refused = self._denials.get(key)
        if refused is None:
            return None
        if self._clock.monotonic() >= refused.until:
            del self._denials[key]
            return None
        return msgspec.structs.replace(refused.ask, request=request, count=1, ticket=False)


def _key(request: ApprovalRequest) -> tuple[str, str]:
    return request.caller.key, request.tool
