"""Rows of lists that are alike, folded into one row with their number. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from flycore.model.approval import Ask
from flycore.model.call import Activity
from flycore.model.enums import Phase, RequestState, Status

T = TypeVar("T")
MAX_GAP_S = 60.0
"""The longest time between two ended calls or requests that are folded, in seconds: a list stays in the order
of time."""
AlikeKey = tuple[Hashable, ...]


def fold_alike(
    items: Iterable[T], key: Callable[[T], AlikeKey], at: Callable[[T], float], max_gap: float = MAX_GAP_S
) -> list[tuple[T, ...]]:
    """The groups of items with the same key, in the order of each group's first item, which stands for the
    others. `at` is an item's time in seconds; an item joins a group where it is at most `max_gap` away from
    the group's last item."""
    groups: list[list[T]] = []
    latest: dict[AlikeKey, list[T]] = {}
    for item in items:
        group = latest.get(key(item))
        if group is None or abs(at(group[-1]) - at(item)) > max_gap:
            group = latest[key(item)] = []
            groups.append(group)
        group.append(item)
    return [tuple(group) for group in groups]


def toggled_fold(unfolded: frozenset[str], group: tuple[str, ...]) -> frozenset[str]:
    """The ids of unfolded rows, after the group of these ids was folded or unfolded."""
    ids = frozenset(group)
    return unfolded | ids if unfolded.isdisjoint(ids) else unfolded - ids


def alike_ask_key(ask: Ask) -> AlikeKey:
    """What alike requests have in common: caller, tool, risk, and what became of them."""
    request = ask.request
    return (ask.state, ask.code, ask.decided_by, request.caller.key, request.tool, request.risk)


def ask_time(ask: Ask) -> float:
    """The time by which requests are folded. Those that wait are folded however long ago they were made."""
    if ask.state is RequestState.WAITING:
        return 0.0
    return ask.decided_at or ask.request.asked_at


def alike_call_key(call: Activity) -> AlikeKey:
    """What alike calls have in common: caller and tool, and that they wait for a person, or ended without
    success with the same code. Calls that run or succeeded are alike only with the same input; a step of a
    plan is alike to no other call."""
    result = call.result
    error = result.error.code if result is not None and result.error is not None else ""
    distinct = call.call_id if call.step is not None else ""
    acts = call.phase is not Phase.WAITING_APPROVAL if result is None else result.status is Status.SUCCESS
    state: Hashable = call.phase if result is None else result.status
    return (state, error, call.caller.key, call.tool, call.input_text if acts else "", distinct)


def call_time(call: Activity) -> float:
    """The time by which calls are folded: when the call arrived."""
    return call.started_at if call.result is not None else 0.0
