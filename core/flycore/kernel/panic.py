"""The emergency stop ("panic"): everything stops at once and stays stopped until a person releases it.

Every client may stop the kernel; only a person may release it. The stop outlives restarts, because its state
is a file: without the file calls run, and a file that cannot be read counts as stopped.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from flycore.approval.queue import ApprovalQueue
from flycore.approval.requests import Transition
from flycore.audit import events as audit_events
from flycore.kernel.bus import Recorder
from flycore.kernel.panic_file import PanicRecord, clear_panic, read_panic, write_panic
from flycore.model.approval import Outcome
from flycore.model.enums import QuestionKind
from flycore.model.errors import AuditUnwritable
from flycore.model.events import EventClass
from flycore.model.json import JsonObject
from flycore.model.question import PANIC_QUESTION, Option, Question
from flycore.pipeline.activity import ActivityLog
from flycore.registry.paths import PANIC_FILE

if TYPE_CHECKING:
    from flycore.kernel.background import BackgroundProcesses

MOST_NAME = 400
"""Characters of `PanicRecord.by` that are kept."""
STOP_SECONDS = 6.0
"""The longest wait for calls to end: TERM, two seconds, KILL, and their lines in the log."""
RELEASE = "release"


def revoke_permissions(queue: ApprovalQueue) -> tuple[int, int]:
    """Revoke all leases and grants and refuse all waiting requests. Return how many requests and leases."""
    requests, leases = queue.waiting, queue.leases.revoke_all()
    queue.grants.void_all()
    queue.approver_left(Transition.PANIC)
    return requests, leases


class PanicSwitch:
    """The stop state of one root. The file is read once, at the start; then the state in memory counts."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._stopped = read_panic(state_dir)
        self._save_error = ""

    @property
    def stopped(self) -> PanicRecord | None:
        """The record of the stop; None while calls run."""
        return self._stopped

    @property
    def save_error(self) -> str:
        """Why the file could not be written, so that a restart ends the stop; empty if it was written."""
        return self._save_error

    def active(self) -> bool:
        """Whether everything is stopped."""
        return self._stopped is not None

    def engage(self, at: float, by: str) -> PanicRecord | None:
        """Stop everything; return None if it was already stopped. The file is written by `save`."""
        if self._stopped is not None:
            return None
        self._stopped = PanicRecord(at=at, by=by[:MOST_NAME])
        return self._stopped

    def save(self, stopped: PanicRecord) -> None:
        """Write the file. If that fails, everything is stopped all the same, until a restart."""
        try:
            write_panic(self._state_dir, stopped)
        except OSError as error:
            self._save_error = error.strerror or str(error)

    def release(self) -> None:
        """Let calls run again. Raises OSError if the file cannot be removed; then all stays stopped."""
        clear_panic(self._state_dir)  # first: a file that stays would stop everything again at a restart
        self._stopped, self._save_error = None, ""


class Panic:
    """The emergency stop of one kernel: it ends what runs, and asks the question that releases it."""

    def __init__(
        self,
        switch: PanicSwitch,
        recorder: Recorder,
        queue: ApprovalQueue,
        activity: ActivityLog,
        background: BackgroundProcesses,
    ) -> None:
        self._switch = switch
        self._recorder = recorder
        self._queue = queue
        self._activity = activity
        self._background = background

    def active(self) -> bool:
        """Whether everything is stopped."""
        return self._switch.active()

    async def stop_everything(self, by: str) -> bool:
        """Stop everything: leases and grants end, requests are refused, calls end with all their processes.

        Wait until they have ended, STOP_SECONDS at most. Return False if everything was already stopped.
        """
        # Before anything is ended: a call that is about to start must find everything stopped.
        stopped = self._switch.engage(self._recorder.clock.now(), by)
        calls = self._activity.running()
        requests, leases = revoke_permissions(self._queue)
        ending = set(self._activity.stop(asking=False))
        if stopped is not None:
            # After the calls were told to end: neither a slow nor a full disk may delay the stop.
            self._switch.save(stopped)
            fields = audit_events.panic(stopped.by, calls=calls, requests=requests, leases=leases)
            self._recorder.record(audit_events.PANIC, fields, sync=True)
            payload: JsonObject = {"questionId": PANIC_QUESTION, "kind": QuestionKind.PANIC.value}
            self._recorder.publish(EventClass.APPROVAL, "question.asked", payload)
        # Shielded: the stop must finish, too, if the client that asked for it disconnects meanwhile.
        with anyio.move_on_after(STOP_SECONDS, shield=True):
            await self._background.halt()
            await self._queue.all_resumed()
            ending.update(self._activity.stop(asking=True))
            await self._activity.wait_until_ended(ending)
        return stopped is not None

    def questions(self) -> tuple[Question, ...]:
        """Return the question that releases everything; none while calls run."""
        stopped, unkept_why = self._switch.stopped, self._switch.save_error
        if stopped is None:
            return ()
        unkept = (f"saved    not on disk, so a restart ends the stop: {unkept_why}",) if unkept_why else ()
        lines = (
            f"by       {stopped.by}",
            "now      no call runs, no approval is asked for, and no lease is valid",
            "release  new calls are accepted and asked for as before; what was stopped does not resume",
            *unkept,
        )
        option = Option(id=RELEASE, words="release: accept calls again", recommended=True)
        return (
            Question(
                id=PANIC_QUESTION,
                kind=QuestionKind.PANIC,
                title="Everything is stopped",
                lines=lines,
                options=(option,),
                asked_at=stopped.at,
            ),
        )

    async def answer(self, question: Question, option: str, text: str, by: str) -> Outcome:
        """Release everything, once the log has it and the file is gone; else everything stays stopped."""
        try:
            fields = audit_events.panic_released(by)
            self._recorder.audit.append(audit_events.PANIC_RELEASED, fields, sync=True)
            self._switch.release()
        except AuditUnwritable as error:
            return Outcome(accepted=False, why_not=f"it could not be logged: {error.cause}")
        except OSError as error:
            return Outcome(accepted=False, why_not=f"{PANIC_FILE} cannot be removed: {error.strerror}")
        self._background.resume()
        return Outcome(accepted=True)
