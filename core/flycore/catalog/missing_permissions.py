"""What the last call of each tool was refused, until a call of it succeeds or its entry changes."""

from __future__ import annotations

from collections.abc import Mapping

from flycore.model.refusals import Refusals
from flycore.model.sidecar import SidecarEntry


class MissingPermissions:
    """Keeps, for each tool, the refusals of its last call and the digest of the entry that it ran by."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], tuple[str, Refusals]] = {}

    def note(self, sidecar: str, tool: str, entry: str, refusals: Refusals | None) -> bool:
        """Note what a call of the tool was refused; None for one that succeeded. `entry` is the digest of its
        entry. Return whether that is another finding than before."""
        key = (sidecar, tool)
        before = self._found.pop(key, None)
        if refusals is not None:
            self._found[key] = (entry, refusals)
        return self._found.get(key) != before

    def of(self, entry: SidecarEntry) -> Mapping[str, Refusals]:
        """Return what was refused to tools of the entry as it is now, by tool."""
        return {
            tool: refusals
            for (sidecar, tool), (digest, refusals) in self._found.items()
            if sidecar == entry.id and digest == entry.digest
        }
