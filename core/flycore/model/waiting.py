"""What waits for a person, in two words: how many, and how bad. All that a notice ever says."""

from __future__ import annotations

from collections.abc import Iterable

from flycore.model.approval import Ask
from flycore.model.enums import RequestState, Risk


def highest_waiting(asks: Iterable[Ask]) -> Risk | None:
    """The highest risk among requests that wait; None where none does."""
    risks = {ask.request.risk for ask in asks if ask.state is RequestState.WAITING}
    return next((risk for risk in reversed(Risk) if risk in risks), None)
