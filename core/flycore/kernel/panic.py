"""Panic: everything stops at once, and stays stopped until a person releases it, across restarts.

Whoever can reach the kernel may stop it; only a person may release. The state is a file: absent, calls run;
one that cannot be relied on counts as stopped.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import msgspec

from flycore.approval.machine import Move
from flycore.approval.queue import ApprovalQueue
from flycore.audit import events as audit_events
from flycore.audit.log import AuditLog
from flycore.executive.activity import ActivityBook
from flycore.executive.rooms import Clock
from flycore.model.approval import DecideOutcome
from flycore.model.base import Value
from flycore.model.canonical import JsonObject
from flycore.model.enums import QuestionKind
from flycore.model.errors import AuditUnwritable
from flycore.model.events import Event, EventClass, Publish
from flycore.model.question import Option, Question
from flycore.registry.places import PANIC_FILE
from flysafe.atomic import write_atomic

MOST_BYTES = 65_536
MOST_NAME = 400
"""Characters kept of who stopped everything."""
STOP_SECONDS = 6.0
"""How long ending calls is waited for: TERM, two seconds, KILL, and the lines written."""
QUESTION = "panic"
"""Id of the question that releases it."""
RELEASE = "release"


class Stopped(Value, frozen=True, kw_only=True):
    """Since when everything is stopped, and by whom."""

    at: float
    """Unix time, seconds."""
    by: str


def read_panic(state_dir: Path) -> Stopped | None:
    """What the file says, None where there is none. One that cannot be read or understood counts."""
    try:
        fd = os.open(state_dir / PANIC_FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Stopped(at=0.0, by=f"{PANIC_FILE}, which cannot be read: {error.strerror}")
    try:
        return msgspec.json.decode(os.read(fd, MOST_BYTES), type=Stopped)
    except OSError as error:
        return Stopped(at=0.0, by=f"{PANIC_FILE}, which cannot be read: {error.strerror}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Stopped(at=0.0, by=f"{PANIC_FILE}, which cannot be understood")
    finally:
        os.close(fd)


def write_panic(state_dir: Path, stopped: Stopped) -> None:
    """Keep it, on disk when this returns. Raises OSError."""
    write_atomic(state_dir / PANIC_FILE, msgspec.json.encode(stopped))


def clear_panic(state_dir: Path) -> None:
    """Let calls run again. Raises OSError where the file cannot be removed."""
    with suppress(FileNotFoundError):
        (state_dir / PANIC_FILE).unlink()


def end_standing(queue: ApprovalQueue) -> tuple[int, int]:
    """Whatever was granted holds no longer, whoever waits is refused. How many requests and leases."""
    requests, leases = queue.waiting, queue.leases.revoke_all()
    queue.grants.void_all()
    queue.leave(Move.PANIC)
    return requests, leases


class Panic:
    """The switch of one kernel, and the question that releases it."""

    def __init__(
        self,
        state_dir: Path,
        clock: Clock,
        publish: Publish,
        audit: AuditLog,
        queue: ApprovalQueue,
        book: ActivityBook,
        released: Callable[[], None],
    ) -> None:
        self._state_dir = state_dir
        self._clock = clock
        self._publish = publish
        self._audit = audit
        self._queue = queue
        self._book = book
        self._released = released
        self._stopped = read_panic(state_dir)
        self._unkept = ""
        self.halt: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint
        """Ends what stays between calls."""

    def active(self) -> bool:
        """Whether everything is stopped."""
        return self._stopped is not None

    async def pull(self, by: str) -> bool:
        """Stop everything: leases and grants end, requests are refused, calls end with all their processes.

        Returns once they have ended, bounded; False where it was stopped already. A full disk does not keep
        anything from stopping: then only a restart forgets it.
        """
        first = self._stopped is None
        stopped = self._stopped or Stopped(at=self._clock.now(), by=by[:MOST_NAME])
        self._stopped = stopped
        calls = self._book.running()
        requests, leases = end_standing(self._queue)
        ending = set(self._book.stop(asking=False))
        if first:
            self._keep(stopped, audit_events.panic(stopped.by, calls=calls, requests=requests, leases=leases))
            self._tell("question.asked", {"questionId": QUESTION, "kind": QuestionKind.PANIC.value})
        with anyio.move_on_after(STOP_SECONDS, shield=True):
            await self.halt()
            await self._queue.taken_up()
            ending.update(self._book.stop(asking=True))
            await self._book.ended(ending)
        return first

    def questions(self) -> tuple[Question, ...]:
        """The one that releases it, while everything is stopped."""
        stopped = self._stopped
        if stopped is None:
            return ()
        unkept = (f"kept     not on disk, so a restart forgets it: {self._unkept}",) if self._unkept else ()
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

    async def answer(self, question: Question, option: str, text: str, by: str) -> DecideOutcome:
        """Release it. Written to the log first, and the file has to go: else everything stays stopped."""
        try:
            fields = audit_events.panic_released(by)
            self._audit.append(audit_events.PANIC_RELEASED, fields, sync=True)
            clear_panic(self._state_dir)
        except AuditUnwritable as error:
            return DecideOutcome(accepted=False, why_not=f"the log does not take it: {error.cause}")
        except OSError as error:
            return DecideOutcome(accepted=False, why_not=f"{PANIC_FILE} cannot be removed: {error.strerror}")
        self._stopped, self._unkept = None, ""
        self._released()
        return DecideOutcome(accepted=True)

    def _keep(self, stopped: Stopped, fields: JsonObject) -> None:
        """Put it on disk and into the log. Neither has to succeed for everything to stay stopped."""
        try:
            write_panic(self._state_dir, stopped)
        except OSError as error:
            self._unkept = error.strerror or str(error)
        try:
            self._audit.append(audit_events.PANIC, fields, sync=True)
        except AuditUnwritable as error:
            self._tell("audit.unwritable", {"cause": error.cause}, EventClass.AUDIT)

    def _tell(self, kind: str, payload: JsonObject, cls: EventClass = EventClass.APPROVAL) -> None:
        self._publish(Event(cls=cls, type=kind, at=self._clock.now(), payload=payload))
