"""The session of a kernel: what the ids of its calls begin with, and what marks the processes of its calls.

Each kernel draws a session when it begins. A call's id is the session, a hyphen and more, and each process
that is started for a call has the id in its environment, which whatever it starts inherits. By that the
next kernel finds processes of a kernel that was killed, also if they are nobody's children any more. A
process may give the variable up, so that this is never the only way to find a tree.
"""

from __future__ import annotations

import re
import secrets

CALL_ID_VARIABLE = "FLYTUI_CALL_ID"
"""The environment variable with the id of the call that a process was started for."""
_SESSION_BYTES = 6
_SESSION = re.compile(r"[0-9a-f]{12}")


def new_session() -> str:
    """Draw the session of one kernel: 12 hexadecimal digits."""
    return secrets.token_hex(_SESSION_BYTES)


def is_session(text: str) -> bool:
    """Whether the text has the form of a session."""
    return _SESSION.fullmatch(text) is not None


def session_of(call_id: str) -> str:
    """Return the session that a call id begins with; empty if it begins with none."""
    session = call_id.partition("-")[0]
    return session if is_session(session) else ""
