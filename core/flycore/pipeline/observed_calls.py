"""Which calls are observed: a tool that works costs nothing more.

The calls that succeeded are kept in `observed.json` of the root's state. A file that is absent or broken only
means that calls are observed once more.
"""

from __future__ import annotations

from pathlib import Path

from flycore.model.json import digest
from flycore.sandbox.observation import why_not_observed
from flycore.store.json_store import Store

MOST_REMEMBERED = 1_024
LARGEST = 131_072
"""Bytes of the file: more than `MOST_REMEMBERED` digests have."""

CallKey = tuple[str, str, str]
"""The tool, the digest of its entry, and the digest of its seal."""


class ObservedCalls:
    """Which tools are observed: those whose last call with the same entry and the same program did not
    succeed. Where `file` is None, they are known in memory only."""

    def __init__(self, file: Path | None = None) -> None:
        self._store = Store[list[str]](file, list[str], [], LARGEST)
        self._succeeded = dict.fromkeys(self._store.value[-MOST_REMEMBERED:])
        self._cannot = ""

    @property
    def why_not(self) -> str:
        """Why no call is observed on this machine; empty where calls are."""
        return self._cannot or why_not_observed()

    def wanted(self, key: CallKey) -> bool:
        """Whether the next such call is observed."""
        return digest([*key]) not in self._succeeded and not self.why_not

    def note(self, key: CallKey, *, succeeded: bool) -> bool:
        """Note how such a call has ended. Return whether that is news for `save`."""
        name = digest([*key])
        if succeeded is (name in self._succeeded):
            return False
        if succeeded:
            self._succeeded[name] = None
        else:
            del self._succeeded[name]
        while len(self._succeeded) > MOST_REMEMBERED:
            del self._succeeded[next(iter(self._succeeded))]
        return True

    def save(self) -> None:
        """Write the file. It waits for the disk. If it cannot be written, nothing is lost but time."""
        self._store.replace(list(self._succeeded))

    def give_up(self, why: str) -> None:
        """Observe no further call: one could not be started with an observer."""
        self._cannot = why
