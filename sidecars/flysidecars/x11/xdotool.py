"""Running xdotool: absolute path, argument list, bounded time and output, a UTF-8 locale."""

from __future__ import annotations

import os

from flysidecars.programs import Ran, find_program, run
from flysidecars.sdk import ToolFailed, Unavailable

LIMIT_S = 10.0
"""For one run; the longest, a chunk of typed text, takes well under a second."""

_KEPT = ("DISPLAY", "XAUTHORITY", "HOME", "XDG_RUNTIME_DIR")

REMEDY = "install xdotool (Debian and Ubuntu: apt install xdotool)"


def xdotool(*arguments: str, stdin: bytes = b"") -> Ran:
    """Run xdotool to its end.

    While it runs, TERM, INT and HUP wait, for it as for us: a signal between the press and the
    release of a key would leave that key down on the person's desktop. Raises `Unavailable` where
    it is not installed and `ToolFailed` (`xdotool-timeout`) where the X server holds it.
    """
    import signal

    program = find_program("xdotool")
    if program is None:
        raise Unavailable("xdotool is not installed", REMEDY)
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environment["LC_ALL"] = "C.UTF-8"
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    try:
        ran = run((program, *arguments), stdin, LIMIT_S, environment)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if ran.timed_out:
        raise ToolFailed("xdotool-timeout", f"xdotool did not end within {LIMIT_S:g} seconds")
    return ran


def act(*arguments: str, stdin: bytes = b"") -> None:
    """Run xdotool for its effect. Raises `ToolFailed` (`xdotool-failed`) with the end of its stderr,
    also where it left with 0 but ignored a key that it does not know."""
    ran = xdotool(*arguments, stdin=stdin)
    if not ran.ok or b"No such key name" in ran.stderr:
        text = ran.stderr[-400:].decode("utf-8", "replace").strip()
        raise ToolFailed("xdotool-failed", f"xdotool {arguments[0]} failed", exitCode=ran.code, stderr=text)
