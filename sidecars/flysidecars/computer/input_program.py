"""Runs the program that moves mouse or keyboard, with a time limit and a UTF-8 locale."""

from __future__ import annotations

from flysidecars.run_program import ProgramResult, environment, find_program, run
from flysidecars.sdk import ToolFailed, Unavailable

EXIT_ENDED = 128 + 15
"""The exit code of a program ended by SIGTERM, as shells report it."""
LIMIT_S = 10.0
"""The longest run, seconds. The longest normal one, a chunk of typed text, takes well under a second."""


def run_input_program(
    name: str, remedy: str, arguments: tuple[str, ...], stdin: bytes, variables: tuple[str, ...]
) -> ProgramResult:
    """Run the program to its end, with the environment variables named in `variables`.

    Raises `Unavailable` if the program is not installed, and `ToolFailed` (`NAME-timeout`).
    """
    import signal

    program = find_program(name)
    if program is None:
        raise Unavailable(f"{name} is not installed", remedy)
    # SIGTERM, SIGINT and SIGHUP wait while the program runs: if we ended between the press and the release
    # of a key, that key would stay down on the person's desktop.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    try:
        ran = run((program, *arguments), stdin, LIMIT_S, {**environment(*variables), "LC_ALL": "C.UTF-8"})
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if ran.timed_out:
        raise ToolFailed(f"{name}-timeout", f"{name} did not end within {LIMIT_S:g} seconds")
    return ran


def exit_on_signal() -> None:
    """Turn SIGTERM into `SystemExit`, so that `finally` blocks release spare keys and pressed buttons before
    the program ends."""
    import signal
    import sys

    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(EXIT_ENDED))
