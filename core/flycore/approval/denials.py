"""Refusals that last: a person said no for some minutes, and is not asked again meanwhile."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import msgspec

from flycore.model.approval import ApprovalRequest, Ask
from flycore.model.clock import Clock

REMEMBERED = 1_000
"""Refusals kept; the oldest goes first."""


class CachedDenial(NamedTuple):
    """A refusal in force."""

    ask: Ask
    """The one that was answered."""
    until: float
    """Monotonic seconds."""


class DenialCache:
    """By caller and tool, whatever the input: who is refused tries again with another."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._refused: OrderedDict[tuple[str, str], CachedDenial] = OrderedDict()

    def remember(self, ask: Ask) -> None:
        """Keep the answer of `ask` for as long as it says; nothing where it says nothing of the kind."""
        minutes = ask.answer.deny_minutes if ask.answer is not None else 0
        if minutes <= 0:
            return
        key = _key(ask.request)
        self._refused.pop(key, None)
        self._refused[key] = CachedDenial(ask, self._clock.monotonic() + minutes * 60.0)
        if len(self._refused) > REMEMBERED:
            self._refused.popitem(last=False)

    def answer(self, request: ApprovalRequest) -> Ask | None:
        """What the refusal in force says to this request; None where a person has to be asked."""
        key = _key(request)
        refused = self._refused.get(key)
        if refused is None:
            return None
        if self._clock.monotonic() >= refused.until:
            del self._refused[key]
            return None
        return msgspec.structs.replace(refused.ask, request=request, count=1, ticket=False)


def _key(request: ApprovalRequest) -> tuple[str, str]:
    return request.caller.key, request.tool
