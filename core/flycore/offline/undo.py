"""The undo of a change that a call made to files, while no kernel runs."""

from __future__ import annotations

from flycore.audit import events as audit_events
from flycore.kernel.undo import undo_result, undone_fields
from flycore.model.call import UndoResult
from flycore.offline.root import HeldRoot
from flycore.registry.paths import RootPaths
from flycore.runners.workspace.project_files import project_of
from flycore.runners.workspace.run import Workspace
from flycore.runners.workspace.undo_store import Undo, UndoRefused, UndoStore

BY = "flytui undo"


def undo_change(root: HeldRoot, call_id: str) -> UndoResult:
    """Undo the call's change. Raises AuditUnwritable; then every file is as it was."""
    begun: list[Undo] = []

    def record(undo: Undo) -> None:
        root.record(audit_events.CHANGE_UNDONE, undone_fields(undo, BY))
        begun.append(undo)

    try:
        return undo_result(_workspace(root.places).undo_now(call_id, record))
    except UndoRefused as error:
        if begun:
            root.record(audit_events.CHANGE_UNDONE, undone_fields(begun[0], BY, failure=str(error)))
        return UndoResult(accepted=False, why_not=str(error))


def look_at_change(places: RootPaths, call_id: str) -> UndoResult:
    """Return whether the call's change can be undone now. Writes nothing."""
    try:
        return undo_result(_workspace(places).look_now(call_id))
    except UndoRefused as error:
        return UndoResult(accepted=False, why_not=str(error))


def _workspace(places: RootPaths) -> Workspace:
    return Workspace(project_of(places), UndoStore(places.undo_dir))
