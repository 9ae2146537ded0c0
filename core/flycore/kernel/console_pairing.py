"""One-time codes by which another console proves that its person sits before one that counts already.

Pure: the clock is handed in with every question, and who shows a code is no matter of this room.

    attach ──▶ open ── right code ──▶ used up: the connection decides from then on
                 ├──── third wrong code, two minutes, connection gone ──▶ used up
                 └──── attach again ──▶ another code, the earlier is worth nothing
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum

from flycore.approval.callers import distinguish_callers, identify_peer
from flycore.audit import events as audit_events
from flycore.kernel.approver import ApproverDeps, KernelApprover
from flycore.kernel.bus import Recorder
from flycore.kernel.lock import LASTING_ROLES
from flycore.model.call import Caller
from flycore.model.enums import KernelRole
from flycore.model.errors import AuditUnwritable
from flycore.model.events import PAIRING, EventClass
from flycore.model.json import JsonObject
from flycore.pipeline.targets.window import ProtectedWindows
from flysafe.procfs import ancestor_names, terminal_of

ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
"""Letters and digits that are not taken for one another."""
LENGTH = 8
VALID_SECONDS = 120.0
TRIES = 3
WINDOW_SECONDS = 120.0
MOST_OF_ONE = 4
"""Codes that one program is shown within WINDOW_SECONDS."""
MOST_SHOWN = 12
"""Codes that a person is shown within WINDOW_SECONDS, whoever asks for them."""


class CodeCheck(StrEnum):
    """What became of a code."""

    PAIRED = "paired"
    WRONG = "wrong"
    SPENT = "spent"
    """Wrong, and for the last time: the right one counts no longer either."""
    NONE = "none"
    """There is no code for this connection, or none that still counts."""


@dataclass(slots=True)
class _IssuedCode:
    code: str
    until: float
    tries: int = TRIES


class PairingCodes:
    """The codes of one kernel. A connection is whatever stands for it; times are monotonic seconds."""

    def __init__(self) -> None:
        self._open: dict[Hashable, _IssuedCode] = {}
        self._shown: deque[tuple[float, str]] = deque()

    def issue(self, connection: Hashable, program: str, now: float) -> str | None:
        """A fresh code for that connection; None where the program, or everybody, has asked too often."""
        while self._shown and now - self._shown[0][0] >= WINDOW_SECONDS:
            self._shown.popleft()
        of_one = sum(name == program for _, name in self._shown)
        if len(self._shown) >= MOST_SHOWN or of_one >= MOST_OF_ONE:
            return None
        self._shown.append((now, program))
        code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
        self._open[connection] = _IssuedCode(code, now + VALID_SECONDS)
        return code

    def check(self, connection: Hashable, code: str, now: float) -> CodeCheck:
        """Try a code; letters count in either case, spaces and hyphens not at all. Compared in constant
        time, and only with the connection's own."""
        open_ = self._open.get(connection)
        if open_ is None or now >= open_.until:
            self._open.pop(connection, None)
            return CodeCheck.NONE
        given = "".join(code.split()).replace("-", "").upper()
        if hmac.compare_digest(given.encode("utf-8", "replace"), open_.code.encode("ascii")):
            del self._open[connection]
            return CodeCheck.PAIRED
        open_.tries -= 1
        if open_.tries:
            return CodeCheck.WRONG
        del self._open[connection]
        return CodeCheck.SPENT

    def tries_left(self, connection: Hashable) -> int:
        """How many more codes that connection may present before its own counts no longer."""
        open_ = self._open.get(connection)
        return open_.tries if open_ is not None else 0

    def forget(self, connection: Hashable) -> None:
        """The connection is gone, its code with it."""
        self._open.pop(connection, None)


# How a console in another process comes in: a code is shown where a person sits already, and typed there.
#
# A code leaves this room by one event, which the bus tells nobody but consoles that decide, and the terminal
# of `flytui serve`.


PROVISIONAL_KERNEL = "this kernel lives for one command only: ask it to yield, and open a console"
NO_CONSOLE_OPEN = (
    "nobody could see the code: no console is open here, and flytui serve has no terminal of its own"
)
TOO_MANY_CODES = "too many codes were asked for: try again in two minutes"
OWN_CONSOLE = "console"
"""What the log calls the console in the kernel's own process where its line has no pid."""
_WHY_NOT = {
    CodeCheck.WRONG: "this is not the code that was shown; tries left: {}",
    CodeCheck.SPENT: "this is not the code that was shown, and it counts no longer; attach again",
    CodeCheck.NONE: "no code counts here: it was refused, or its two minutes are over; attach again",
}


class ConsolePairing:
    """The consoles of one kernel: its own, and the way in for those of other processes."""

    def __init__(self, reach: ApproverDeps, recorder: Recorder, role: KernelRole) -> None:
        self._reach = reach
        self.own = KernelApprover(
            reach,
            f"the console on pid {os.getpid()}",
            OWN_CONSOLE,
            refuse=self.refuse,
            opened=self._record_opened,
        )
        """Of the console in this process."""
        self._recorder = recorder
        self._clock = recorder.clock
        self._role = role
        self._book = PairingCodes()
        self._terminals = 0
        self._asking: dict[Hashable, tuple[Caller, int]] = {}
        """Connections that were shown a code and have not been paired, with their process."""
        self._who: dict[Hashable, str] = {}
        """How a person recognises who has asked; a process that has ended says nothing any more."""

    @property
    def consoles(self) -> int:
        """How many can decide."""
        return len(self._reach.seats)

    @property
    def seat(self) -> ProtectedWindows:
        """Windows and processes of every console, which no tool may touch."""
        return self._reach.seats.protected_windows()

    @contextmanager
    def on_terminal(self) -> Iterator[None]:
        """Around the time in which codes are shown on the kernel's own terminal."""
        self._terminals += 1
        try:
            yield
        finally:
            self._terminals -= 1

    def request_code(self, connection: Hashable, caller: Caller, pid: int) -> str:
        """Show a person a code for that connection of the process `pid`; why not, in words, else empty."""
        if self._role not in LASTING_ROLES:
            return PROVISIONAL_KERNEL
        if not self.consoles and not self._terminals:
            return NO_CONSOLE_OPEN
        code = self._book.issue(connection, caller.key, self._clock.monotonic())
        if code is None:
            return TOO_MANY_CODES
        self._who[connection] = distinguish_callers(pid, caller)
        expires = self._clock.now() + VALID_SECONDS
        self._asking[connection] = caller, pid
        named = self._event_payload(connection, caller, pid)
        self._publish(PAIRING, {"code": code, **named, "expiresAt": round(expires, 3)})
        return ""

    def pair(
        self, connection: Hashable, code: str, caller: Caller, pid: int, seat: ProtectedWindows
    ) -> KernelApprover | str:
        """A hand of its own for the console that typed the right code, seated; else why not, in words."""
        presented = self._book.check(connection, code, self._clock.monotonic())
        if presented is not CodeCheck.PAIRED:
            self._record(audit_events.CONSOLE_REFUSED, caller, pid, reason=presented.value)
            if presented is CodeCheck.SPENT and self._asking.pop(connection, None) is not None:
                self._publish("console.refused", self._event_payload(connection, caller, pid))
            return _WHY_NOT[presented].format(self._book.tries_left(connection))
        self._asking.pop(connection, None)
        who = f"the console on pid {pid}"
        approver = KernelApprover(self._reach, who, who, refuse=self.refuse)
        self._record(audit_events.CONSOLE_ATTACHED, caller, pid)
        approver.attach(seat.window_ids, seat.pids)
        self._publish("console.attached", self._event_payload(connection, caller, pid))
        return approver

    def disconnected(
        self, connection: Hashable, approver: KernelApprover | None, caller: Caller, pid: int
    ) -> None:
        """The connection is gone: its code counts no longer, its seat is free, and nothing is decided."""
        self._book.forget(connection)
        asked = self._asking.pop(connection, None)
        if approver is not None:
            approver.disconnect()
            self._record(audit_events.CONSOLE_LEFT, caller, pid)
        if approver is not None or asked is not None:
            self._publish("console.left", self._event_payload(connection, caller, pid))
        self._who.pop(connection, None)

    def refuse(self, pid: int) -> bool:
        """A person refuses the codes that process asked for; False where it waits for none."""
        found = [connection for connection, (_, asker) in self._asking.items() if asker == pid]
        for connection in found:
            caller, _ = self._asking.pop(connection)
            self._book.forget(connection)
            self._record(audit_events.CONSOLE_REFUSED, caller, pid, reason="refused")
            self._publish("console.refused", self._event_payload(connection, caller, pid))
        return bool(found)

    def _record_opened(self) -> None:
        pid = os.getpid()
        self._record(audit_events.CONSOLE_OPENED, identify_peer(pid, "console"), pid)

    def _record(self, event: str, caller: Caller, pid: int, reason: str = "") -> None:
        """Nothing runs because of these lines, so a full disk stops only the line."""
        with suppress(AuditUnwritable):
            fields = audit_events.console(
                caller, pid, terminal=terminal_of(pid), kin=ancestor_names(pid), reason=reason
            )
            self._recorder.audit.append(event, fields, sync=True)

    def _publish(self, kind: str, payload: JsonObject) -> None:
        self._recorder.publish(EventClass.APPROVAL, kind, payload)

    def _event_payload(self, connection: Hashable, caller: Caller, pid: int) -> JsonObject:
        who = self._who.get(connection, f"{caller.program} (pid {pid})")
        return {"program": caller.program, "pid": pid, "who": who}
