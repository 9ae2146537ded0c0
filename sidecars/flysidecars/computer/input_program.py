"""Running the program that moves mouse or keyboard: an argument list, bounded time, a UTF-8 locale."""

from __future__ import annotations

from flysidecars.run_program import ProgramResult, environment, find_program, run
from flysidecars.sdk import ToolFailed, Unavailable

EXIT_ENDED = 128 + 15
LIMIT_S = 10.0
"""For one run; the longest, a chunk of typed text, takes well under a second."""


def run_input_program(
    name: str, remedy: str, arguments: tuple[str, ...], stdin: bytes, kept: tuple[str, ...]
) -> ProgramResult:
    """Run the program to its end, with the names of `kept` from the environment.

    While it runs, TERM, INT and HUP wait: a signal between the press and the release of a key would leave
    that key down on the person's desktop. Raises `Unavailable` where it is not installed and `ToolFailed`
    (`NAME-timeout`) where the desktop holds it.
    """
    import signal

    program = find_program(name)
    if program is None:
        raise Unavailable(f"{name} is not installed", remedy)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    try:
        ran = run((program, *arguments), stdin, LIMIT_S, {**environment(*kept), "LC_ALL": "C.UTF-8"})
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if ran.timed_out:
        raise ToolFailed(f"{name}-timeout", f"{name} did not end within {LIMIT_S:g} seconds")
    return ran


def exit_on_signal() -> None:
    """Let TERM unwind the stack, so that borrowed keys and held buttons are given back before the program
    ends."""
    import signal
    import sys

    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(EXIT_ENDED))
