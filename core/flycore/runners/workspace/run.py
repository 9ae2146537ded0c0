"""Runs the kernel's own file tools: in worker threads, and one change at a time. Every end is an outcome."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import anyio
import anyio.to_thread

from flycore.model.enums import Code, Status
from flycore.model.json import JsonObject
from flycore.runners.one_shot import RunOutcome
from flycore.runners.workspace.list_files import list_page
from flycore.runners.workspace.planned_changes import (
    CHANGING,
    LIST_TOOL,
    READ_TOOL,
    FileChange,
    digest_of,
    plan_changes,
)
from flycore.runners.workspace.project_files import PathRefused, Project, anchor_of, failure_text
from flycore.runners.workspace.read_file import read_page
from flycore.runners.workspace.search_files import BadPattern, query_of, search
from flycore.runners.workspace.text_changes import MOST_FILE_BYTES, ChangeDoesNotFit
from flycore.runners.workspace.undo_store import (
    NOTHING_KEPT,
    Undo,
    UndoFile,
    UndoRecord,
    UndoRefused,
    UndoStore,
    carry_out,
    plan_undo,
)
from flycore.runners.workspace.write_files import (
    FileDiffers,
    FileState,
    Replacement,
    RestoreFailed,
    read_state,
    replace_files,
)

LOOK_AGAIN = "read the file again, and make the change for what it is now"


class Workspace:
    """The files of one project, as the tools of the kernel see and change them."""

    def __init__(self, project: Project, store: UndoStore, clock: Callable[[], float] = time.time) -> None:
        self.project = project
        self.store = store
        self._clock = clock
        self._order = anyio.Lock()
        """Changes and undos are made one after the other, so that none is compared while another writes."""

    async def call(
        self, tool: str, input: JsonObject, call_id: str, *, approved: Mapping[str, str] | None, why: str = ""
    ) -> RunOutcome:
        """Run one call; every end is an outcome.

        `approved` has the digest of each file, by its path, that a person approved the change for; None where
        nobody looked at them. `why` is the reason why ripgrep does not search.
        """
        begun = time.monotonic()
        if tool in CHANGING:
            async with self._order:
                outcome = await _aside(partial(self._change, tool, input, call_id, approved))
        else:
            outcome = await _aside(partial(self._look, tool, input, why))
        return _with_duration(outcome, begun)

    def _look(self, tool: str, input: JsonObject, why: str) -> RunOutcome:
        given = str(input.get("path", "."))
        offset, limit = _whole(input, "offset", 0), _whole(input, "limit", 100)
        try:
            if tool == READ_TOOL:
                output = read_page(self.project, given, offset, limit)
            elif tool == LIST_TOOL:
                recursive = input.get("recursive") is True
                output = list_page(self.project, given, recursive=recursive, offset=offset, limit=limit)
            else:
                output = search(self.project, query_of(input), why, offset, limit)
        except PathRefused as error:
            return refused(str(error), error.hint)
        except BadPattern as error:
            return _failed(str(error), "correct the pattern, or search without regex")
        except OSError as error:
            return _failed(failure_text(error, given), "workspace.list shows what is there")
        return RunOutcome(status=Status.SUCCESS, output=output)

    def _change(
        self, tool: str, input: JsonObject, call_id: str, approved: Mapping[str, str] | None
    ) -> RunOutcome:
        try:
            changes = plan_changes(self.project, tool, input)
        except PathRefused as error:
            return refused(str(error), error.hint)
        except ChangeDoesNotFit as error:
            return _failed(str(error), LOOK_AGAIN)
        except OSError as error:  # a file went away between two looks at it
            return _failed(failure_text(error, str(input.get("path", "."))), LOOK_AGAIN)
        # The last comparison with what the card showed: between it and the write the file is compared once
        # more with what is planned here.
        if approved is not None and approved != {change.path: change.digest for change in changes}:
            return _stale("a file changed after the approval")
        written = [change for change in changes if change.kind != "unchanged"]
        try:
            self._write(tool, call_id, written)
        except FileDiffers as error:
            return _stale(str(error))
        except PathRefused as error:
            return refused(str(error), error.hint)
        except RestoreFailed as error:
            return _failed(str(error), "look at these files; flytui undo may restore them")
        except OSError as error:
            return _failed(_write_failure(error), "nothing was changed")
        output: JsonObject = {"files": [change.document() for change in changes], "undo": bool(written)}
        return RunOutcome(status=Status.SUCCESS, output=output)

    def _write(self, tool: str, call_id: str, changes: list[FileChange]) -> None:
        """Write the changes. Raises FileDiffers, PathRefused, RestoreFailed and OSError."""
        if not changes:
            return
        with anchor_of(self.project) as anchor:
            before = {change.path: read_state(anchor, change.path, MOST_FILE_BYTES) for change in changes}
        for change in changes:
            if before[change.path].data != change.before:
                raise FileDiffers(change.path)
        files = tuple(_undo_file(change, before[change.path]) for change in changes)

        def keep(folders: tuple[str, ...]) -> None:
            self.store.save(UndoRecord(call_id, tool, self._clock(), files, folders))

        try:
            replace_files(
                self.project, [_replacement(change, before[change.path]) for change in changes], keep
            )
        except RestoreFailed:
            raise  # the record may be what restores the rest
        except BaseException:
            self.store.drop(call_id)
            raise

    async def find_undo(self, call_id: str) -> Undo:
        """Return how the change of a call would be undone now. Raises UndoRefused."""
        return await anyio.to_thread.run_sync(self._plan_undo, call_id)

    async def undo(self, call_id: str, before_effect: Callable[[Undo], None]) -> Undo:
        """Undo the change of a call. `before_effect` is called before the first file is touched; what it
        raises ends the undo. Raises UndoRefused."""
        async with self._order:
            undo = await anyio.to_thread.run_sync(self._plan_undo, call_id)
            before_effect(undo)
            await anyio.to_thread.run_sync(self._carry_out, undo)
        return undo

    def look_now(self, call_id: str) -> Undo:
        """Return how the change of a call would be undone, where no kernel runs. Raises UndoRefused."""
        return self._plan_undo(call_id)

    def undo_now(self, call_id: str, before_effect: Callable[[Undo], None]) -> Undo:
        """Undo the change of a call where no kernel runs. As `undo`."""
        undo = self._plan_undo(call_id)
        before_effect(undo)
        self._carry_out(undo)
        return undo

    def _plan_undo(self, call_id: str) -> Undo:
        record = self.store.load(call_id)
        if record is None:
            raise UndoRefused(NOTHING_KEPT)
        return plan_undo(self.project, record)

    def _carry_out(self, undo: Undo) -> None:
        carry_out(self.project, undo)
        self.store.drop(undo.record.call_id)


async def _aside(run: Callable[[], RunOutcome]) -> RunOutcome:
    return await anyio.to_thread.run_sync(run)


def _undo_file(change: FileChange, before: FileState) -> UndoFile:
    after = "" if change.after is None else digest_of(change.after)
    return UndoFile(change.path, before, after, change.mode)


def _replacement(change: FileChange, before: FileState) -> Replacement:
    return Replacement(change.path, before, FileState(change.after, change.mode))


def _whole(input: JsonObject, key: str, default: int) -> int:
    value = input.get(key, default)
    return value if isinstance(value, int) else default


def _with_duration(outcome: RunOutcome, begun: float) -> RunOutcome:
    return replace(outcome, duration_ms=round((time.monotonic() - begun) * 1000))


def refused(message: str, hint: str) -> RunOutcome:
    """The outcome of a call whose path may not be used."""
    return RunOutcome(status=Status.FAILED, code=Code.INVALID_INPUT, message=message, hint=hint)


def _failed(message: str, hint: str) -> RunOutcome:
    return RunOutcome(status=Status.FAILED, code=Code.FAILED, message=message, hint=hint)


def _stale(message: str) -> RunOutcome:
    return RunOutcome(
        status=Status.FAILED,
        code=Code.APPROVAL_STALE,
        message=f"{message}; nothing was written",
        hint=LOOK_AGAIN,
    )


def _write_failure(error: OSError) -> str:
    words = {errno.ENOSPC: "the disk is full", errno.EROFS: "the file system is read-only"}
    return f"the change could not be written: {words.get(error.errno or 0, error.strerror or str(error))}"
