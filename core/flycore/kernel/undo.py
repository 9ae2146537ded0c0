"""Undoes the change that a call made to files, for a person: logged before the first file is touched."""

from __future__ import annotations

from collections.abc import Callable

from flycore.audit import events as audit_events
from flycore.audit.log import AuditLog
from flycore.kernel.questions import DESKTOP_CONTROLLED
from flycore.model.call import UndoResult
from flycore.model.errors import AuditUnwritable
from flycore.model.json import JsonObject
from flycore.runners.workspace.run import Workspace
from flycore.runners.workspace.undo_store import Undo, UndoRefused


class UndoActions:
    """The undo of the changes of one root."""

    def __init__(self, workspace: Workspace, audit: AuditLog, desktop_controlled: Callable[[], bool]) -> None:
        self._workspace = workspace
        self._audit = audit
        self._desktop_controlled = desktop_controlled

    async def look(self, call_id: str) -> UndoResult:
        """Return whether the call's change can be undone now. Changes nothing."""
        try:
            return undo_result(await self._workspace.find_undo(call_id))
        except UndoRefused as error:
            return UndoResult(accepted=False, why_not=str(error))

    async def undo(self, call_id: str, by: str) -> UndoResult:
        """Undo the call's change. `by` names the client in the log."""
        # A tool that presses keys could undo what the person has just approved.
        if self._desktop_controlled():
            return UndoResult(accepted=False, why_not=DESKTOP_CONTROLLED)
        begun: list[Undo] = []

        def record(undo: Undo) -> None:
            self._audit.append(audit_events.CHANGE_UNDONE, undone_fields(undo, by), sync=True)
            begun.append(undo)

        try:
            return undo_result(await self._workspace.undo(call_id, record))
        except UndoRefused as error:
            if begun:
                fields = undone_fields(begun[0], by, failure=str(error))
                self._audit.append(audit_events.CHANGE_UNDONE, fields)
            return UndoResult(accepted=False, why_not=str(error))
        except AuditUnwritable as error:
            return UndoResult(accepted=False, why_not=str(error))


def undone_fields(undo: Undo, by: str, failure: str = "") -> JsonObject:
    """Return the fields of the line for an undo."""
    return audit_events.change_undone(
        undo.record.call_id, undo.record.tool, undo.paths, by=by, failure=failure
    )


def undo_result(undo: Undo) -> UndoResult:
    """Return the result of an undo that is possible, or done."""
    return UndoResult(accepted=True, files=undo.paths)
