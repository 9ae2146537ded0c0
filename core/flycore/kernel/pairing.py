"""One-time codes by which another console proves that its person sits before one that counts already.

Pure: the clock is handed in with every question, and who shows a code is no matter of this room.

    attach ──▶ open ── right code ──▶ used up: the connection decides from then on
                 ├──── third wrong code, two minutes, connection gone ──▶ used up
                 └──── attach again ──▶ another code, the earlier is worth nothing
"""

from __future__ import annotations

import hmac
import secrets
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum

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
