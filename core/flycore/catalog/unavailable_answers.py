"""Tools that answered a call with `unavailable`, until a call of them succeeds, they are asked again, or
their entry changes."""

from __future__ import annotations

from collections.abc import Mapping

from flycore.model.base import Value
from flycore.model.sidecar import SidecarEntry

LONGEST = 400
"""Characters that are kept of what a tool said."""


class UnavailableAnswer(Value, frozen=True, kw_only=True):
    """What a tool said when it answered that it is unavailable, and what it said can be done."""

    message: str
    hint: str = ""


class UnavailableAnswers:
    """Keeps, for each tool, its last such answer and the digest of the entry that it ran by."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], tuple[str, UnavailableAnswer]] = {}

    def note(self, sidecar: str, tool: str, entry: str, answer: UnavailableAnswer | None) -> bool:
        """Note what a call of the tool answered; None for one that succeeded. `entry` is the digest of its
        entry. Return whether that is another answer than before."""
        key = (sidecar, tool)
        before = self._found.pop(key, None)
        if answer is not None:
            cut = UnavailableAnswer(message=answer.message[:LONGEST], hint=answer.hint[:LONGEST])
            self._found[key] = (entry, cut)
        return self._found.get(key) != before

    def forget(self, sidecar: str) -> bool:
        """Forget the answers of a sidecar that is asked again. Return whether there were any."""
        gone = [key for key in self._found if key[0] == sidecar]
        for key in gone:
            del self._found[key]
        return bool(gone)

    def of(self, entry: SidecarEntry) -> Mapping[str, UnavailableAnswer]:
        """Return the answers of tools of the entry as it is now, by tool."""
        return {
            tool: answer
            for (sidecar, tool), (digest, answer) in self._found.items()
            if sidecar == entry.id and digest == entry.digest
        }
