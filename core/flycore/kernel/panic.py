"""Panic: everything stops at once, and stays stopped until a person releases it, across restarts.

Whoever can reach the kernel may stop it; only a person may release. The state is a file: absent, calls run;
one that cannot be relied on counts as stopped.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import msgspec

from flycore.approval.queue import ApprovalQueue
from flycore.approval.request_states import Transition
from flycore.audit import events as audit_events
from flycore.kernel.bus import Recorder
from flycore.model.approval import Outcome
from flycore.model.base import Value
from flycore.model.enums import QuestionKind
from flycore.model.errors import AuditUnwritable
from flycore.model.events import EventClass
from flycore.model.json import JsonObject
from flycore.model.question import Option, Question
from flycore.pipeline.activity import ActivityLog
from flycore.registry.paths import PANIC_FILE
from flysafe.atomic import write_atomic

if TYPE_CHECKING:  # the command line reads and writes the file of this module without a kernel
    from flycore.kernel.background import BackgroundProcesses

MOST_BYTES = 65_536
MOST_NAME = 400
"""Characters kept of who stopped everything."""
STOP_SECONDS = 6.0
"""How long ending calls is waited for: TERM, two seconds, KILL, and the lines written."""
QUESTION = "panic"
"""Id of the question that releases it."""
RELEASE = "release"


class PanicRecord(Value, frozen=True, kw_only=True):
    """Since when everything is stopped, and by whom."""

    at: float
    """Unix time, seconds."""
    by: str


def read_panic(state_dir: Path) -> PanicRecord | None:
    """What the file says, None where there is none. One that cannot be read or understood counts."""
    try:
        fd = os.open(state_dir / PANIC_FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        return PanicRecord(at=0.0, by=f"{PANIC_FILE}, which cannot be read: {error.strerror}")
    try:
        return msgspec.json.decode(os.read(fd, MOST_BYTES), type=PanicRecord)
    except OSError as error:
        return PanicRecord(at=0.0, by=f"{PANIC_FILE}, which cannot be read: {error.strerror}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return PanicRecord(at=0.0, by=f"{PANIC_FILE}, which cannot be understood")
    finally:
        os.close(fd)


def write_panic(state_dir: Path, stopped: PanicRecord) -> None:
    """Keep it, on disk when this returns. Raises OSError."""
    write_atomic(state_dir / PANIC_FILE, msgspec.json.encode(stopped))


def clear_panic(state_dir: Path) -> None:
    """Let calls run again. Raises OSError where the file cannot be removed."""
    with suppress(FileNotFoundError):
        (state_dir / PANIC_FILE).unlink()


def revoke_permissions(queue: ApprovalQueue) -> tuple[int, int]:
    """Whatever was granted holds no longer, whoever waits is refused. How many requests and leases."""
    requests, leases = queue.waiting, queue.leases.revoke_all()
    queue.grants.void_all()
    queue.approver_left(Transition.PANIC)
    return requests, leases


class PanicSwitch:
    """Whether everything of one root is stopped. The file is read once; from then on this is what counts."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._stopped = read_panic(state_dir)
        self._unkept = ""

    @property
    def stopped(self) -> PanicRecord | None:
        """Since when, and by whom; None while calls run."""
        return self._stopped

    @property
    def unkept(self) -> str:
        """Why the file could not be written: then a restart forgets it. Empty where it was."""
        return self._unkept

    def active(self) -> bool:
        """Whether everything is stopped."""
        return self._stopped is not None

    def engage(self, at: float, by: str) -> PanicRecord | None:
        """Stop everything; None where it is stopped already. Nothing is on disk before `keep`."""
        if self._stopped is not None:
            return None
        self._stopped = PanicRecord(at=at, by=by[:MOST_NAME])
        return self._stopped

    def keep(self, stopped: PanicRecord) -> None:
        """Put it on disk. That need not succeed for everything to stay stopped."""
        try:
            write_panic(self._state_dir, stopped)
        except OSError as error:
            self._unkept = error.strerror or str(error)

    def release(self) -> None:
        """Let calls run again. Raises OSError where the file cannot be removed: then they do not."""
        clear_panic(self._state_dir)
        self._stopped, self._unkept = None, ""


class Panic:
    """Pulls the switch of one kernel, ends what runs, and asks the question that releases it."""

    def __init__(
        self,
        switch: PanicSwitch,
        recorder: Recorder,
        queue: ApprovalQueue,
        activity: ActivityLog,
        processes: BackgroundProcesses,
    ) -> None:
        self._switch = switch
        self._recorder = recorder
        self._queue = queue
        self._activity = activity
        self._processes = processes

    def active(self) -> bool:
        """Whether everything is stopped."""
        return self._switch.active()

    async def pull(self, by: str) -> bool:
        """Stop everything: leases and grants end, requests are refused, calls end with all their processes.

        Returns once they have ended, bounded; False where it was stopped already. A full disk does not keep
        anything from stopping: then only a restart forgets it.
        """
        # Before anything is ended: a call that would start meanwhile finds the switch pulled.
        stopped = self._switch.engage(self._recorder.clock.now(), by)
        calls = self._activity.running()
        requests, leases = revoke_permissions(self._queue)
        ending = set(self._activity.stop(asking=False))
        if stopped is not None:
            self._switch.keep(stopped)
            fields = audit_events.panic(stopped.by, calls=calls, requests=requests, leases=leases)
            self._recorder.record(audit_events.PANIC, fields, sync=True)
            asked: JsonObject = {"questionId": QUESTION, "kind": QuestionKind.PANIC.value}
            self._recorder.publish(EventClass.APPROVAL, "question.asked", asked)
        with anyio.move_on_after(STOP_SECONDS, shield=True):
            await self._processes.halt()
            await self._queue.all_resumed()
            ending.update(self._activity.stop(asking=True))
            await self._activity.wait_until_ended(ending)
        return stopped is not None

    def questions(self) -> tuple[Question, ...]:
        """The one that releases it, while everything is stopped."""
        stopped, unkept_why = self._switch.stopped, self._switch.unkept
        if stopped is None:
            return ()
        unkept = (f"kept     not on disk, so a restart forgets it: {unkept_why}",) if unkept_why else ()
        lines = (
            f"by       {stopped.by}",
            "now      no call runs, none is asked for, and no lease holds",
            "release  calls are taken again, each asked for as ever; nothing that was stopped comes back",
            *unkept,
        )
        option = Option(id=RELEASE, words="release: take calls again", recommended=True)
        return (
            Question(
                id=QUESTION,
                kind=QuestionKind.PANIC,
                title="Everything is stopped",
                lines=lines,
                options=(option,),
                asked_at=stopped.at,
            ),
        )

    async def answer(self, question: Question, option: str, text: str, by: str) -> Outcome:
        """Release it. Written to the log first, and the file has to go: else everything stays stopped."""
        try:
            fields = audit_events.panic_released(by)
            self._recorder.audit.append(audit_events.PANIC_RELEASED, fields, sync=True)
            self._switch.release()
        except AuditUnwritable as error:
            return Outcome(accepted=False, why_not=f"the log does not take it: {error.cause}")
        except OSError as error:
            return Outcome(accepted=False, why_not=f"{PANIC_FILE} cannot be removed: {error.strerror}")
        self._processes.resume()
        return Outcome(accepted=True)
