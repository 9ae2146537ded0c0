"""What a person said lately to one and the same call: the same program, tool and input."""

from __future__ import annotations

from collections import OrderedDict, deque

from flycore.audit.line import LONGEST_NAME, LogRecord
from flycore.model.approval import Checks
from flycore.model.enums import RequestState

MOST_CALLS = 10_000
"""Calls told apart; the one whose answer is oldest is given up."""
MOST_ANSWERS = 100
"""Answers to one call; a card that says a hundred says enough."""
_CallKey = tuple[str, str, str]


class PastDecisions:
    """Decisions of a person, by what was asked."""

    def __init__(self) -> None:
        self._given: OrderedDict[_CallKey, deque[tuple[str, bool]]] = OrderedDict()

    def add(self, line: LogRecord) -> None:
        """A request was settled; what no person answered does not count."""
        if not line.choice or line.decision not in (RequestState.APPROVED, RequestState.DENIED):
            return
        key = line.program, line.tool[:LONGEST_NAME], line.input_digest
        answers = self._given.pop(key, None) or deque(maxlen=MOST_ANSWERS)
        answers.append((line.time, line.decision == RequestState.APPROVED))
        self._given[key] = answers
        if len(self._given) > MOST_CALLS:
            self._given.popitem(last=False)

    def decisions(self, program: str, tool: str, input_digest: str, since: str) -> Checks:
        """How often that call was approved and denied, from `since` on, a time as the log writes it."""
        answers = self._given.get((program, tool[:LONGEST_NAME], input_digest), ())
        said = [approved for time, approved in answers if time >= since]
        return Checks(approved=said.count(True), denied=said.count(False))
