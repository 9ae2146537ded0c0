"""Two sidecars that claim one tool: the first has it, the other is told who won."""

from __future__ import annotations

import msgspec

from flycore.model.diagnostics import Diagnostic, Severity
from flycore.model.json import pointer_join
from flycore.model.sidecar import SidecarEntry
from flycore.registry.keys import key_position

RULE = "tool-conflict"


def mark_conflicts(entries: tuple[SidecarEntry, ...]) -> tuple[SidecarEntry, ...]:
    """The entries, each later claim of a tool noted as a warning. Earlier notes are taken anew.

    An entry that is invalid or disabled claims in its place all the same: what a person wrote first has
    the tool, and shows there why it is not available.
    """
    winners: dict[str, SidecarEntry] = {}
    marked: list[SidecarEntry] = []
    for entry in entries:
        lost: list[Diagnostic] = []
        for claim in entry.tools:
            winner = winners.setdefault(claim.name, entry)
            if winner is not entry:
                lost.append(_warning(entry, claim.name, winner))
        kept = tuple(problem for problem in entry.problems if problem.rule != RULE)
        if lost or len(kept) != len(entry.problems):
            entry = msgspec.structs.replace(entry, problems=(*kept, *lost))
        marked.append(entry)
    return tuple(marked)


def _warning(entry: SidecarEntry, tool: str, winner: SidecarEntry) -> Diagnostic:
    where = f"{winner.position.file}:{winner.position.line}"
    return Diagnostic(
        severity=Severity.WARNING,
        rule=RULE,
        message=f"{tool} is offered by {winner.id} ({where}), which stands first",
        remedy=f"take {tool} out of one of the two",
        pointer=f"{pointer_join('/sidecars', entry.id)}/tools",
        position=key_position(entry, "tools"),
        sidecar=entry.id,
    )
