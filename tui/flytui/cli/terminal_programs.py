"""What the console mends things with on this terminal: the person's editor, and programs run to their end."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from flytui.cli.output import print_error

if TYPE_CHECKING:
    from flycore.registry.paths import RootPaths
    from flytui.console.fix.terminal_programs import TerminalPrograms

EDITORS = ("sensible-editor", "nano", "vim", "vi")
NOT_STARTED = 127


def find_terminal_programs(places: RootPaths, environ: Mapping[str, str]) -> TerminalPrograms:
    """The bench of the person at this terminal."""
    from flycore.offline.files import starter_text
    from flytui.console.fix.terminal_programs import TerminalPrograms

    return TerminalPrograms(
        root=str(places.app_root),
        home=environ.get("HOME", ""),
        editor=find_editor(environ),
        starter=starter_text(),
        run=run_here,
    )


def find_editor(environ: Mapping[str, str]) -> tuple[str, ...]:
    """VISUAL, else EDITOR, split as a shell would; else one that is commonly there."""
    for name in ("VISUAL", "EDITOR"):
        with suppress(ValueError):  # an open quote
            words = shlex.split(environ.get(name, ""))
            if words:
                return tuple(words)
    found = (shutil.which(name, path=environ.get("PATH", "")) for name in EDITORS)
    return next(((path,) for path in found if path), ())


async def run_here(argv: tuple[str, ...], read: bool) -> int:
    """Run a program with this terminal and the person's own environment; no shell. With `read`, wait for
    Enter afterwards, so that what it wrote can be read."""
    import anyio

    if read:
        print_error(f"$ {shlex.join(argv)}")
    with _leave_interrupts_to_child():
        try:
            done = await anyio.run_process(list(argv), stdin=None, stdout=None, stderr=None, check=False)
            status = done.returncode
        except OSError as error:
            print_error(f"{argv[0]} cannot be started: {error.strerror or error}")
            status, read = NOT_STARTED, True
        if read:
            print_error(f"exit status {status} · Enter goes back to flytui")
            await anyio.to_thread.run_sync(_wait_for_enter, abandon_on_cancel=True)
    return status


def _wait_for_enter() -> None:
    """Wait for a line that is typed from now on, or for the terminal's end."""
    with suppress(OSError, termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    with suppress(OSError):
        os.read(sys.stdin.fileno(), 1_024)


@contextmanager
def _leave_interrupts_to_child() -> Iterator[None]:
    """ctrl+c and ctrl+\\ are typed for the program that has the terminal. A handler that does nothing is not
    handed on to it, as ignoring would be."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGQUIT)}
    for number in before:
        signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
