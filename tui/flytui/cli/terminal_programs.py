"""The programs that the console runs on this terminal: the person's editor, and the commands of fixes; and
the viewer of pictures, which runs on the desktop."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

import anyio
import anyio.to_thread

from flycore.registry.paths import RootPaths
from flytui.console.fix.terminal_programs import TerminalPrograms
from flytui.supervisor.memory_limit import without_memory_limit

EDITORS = ("sensible-editor", "nano", "vim", "vi")
Lend = Callable[[int], None]
"""Called with the process that has the terminal now, and with 0 when the console has it again."""
NOT_STARTED = 127
"""The exit status that shells use for a program that cannot be started."""


def find_terminal_programs(places: RootPaths, environ: Mapping[str, str], lend: Lend) -> TerminalPrograms:
    """The programs of the person at this terminal. `lend` hears of each one that runs."""
    return TerminalPrograms(
        root=str(places.app_root),
        home=environ.get("HOME", ""),
        editor=find_editor(environ),
        run=partial(run_on_terminal, lend),
        view=partial(view_file, viewer) if (viewer := find_viewer(environ)) else None,
    )


def find_editor(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The command in VISUAL or in EDITOR, split as a shell does; otherwise the first common editor on
    PATH."""
    for name in ("VISUAL", "EDITOR"):
        with suppress(ValueError):  # an open quote
            words = shlex.split(environ.get(name, ""))
            if words:
                return tuple(words)
    found = (shutil.which(name, path=environ.get("PATH", "")) for name in EDITORS)
    return next(((path,) for path in found if path), ())


def find_viewer(environ: Mapping[str, str]) -> str:
    """The program that opens a file as the desktop does; `""` where there is none, or no desktop."""
    if sys.platform == "darwin":
        return shutil.which("open", path=environ.get("PATH", "")) or ""
    # Without a desktop it would start a text browser, on this terminal.
    if not environ.get("DISPLAY") and not environ.get("WAYLAND_DISPLAY"):
        return ""
    return shutil.which("xdg-open", path=environ.get("PATH", "")) or ""


def find_browser(environ: Mapping[str, str]) -> str:
    """The program that opens an address in the person's browser: BROWSER where it names one program, else the
    viewer; `""` where there is neither."""
    named = environ.get("BROWSER", "")
    found = shutil.which(named, path=environ.get("PATH", "")) if named else None
    return found or find_viewer(environ)


async def view_file(viewer: str, path: str) -> int:
    """Start the viewer on the file, without a shell, and return its exit status. It has no part of this
    terminal, and stays when the console leaves. Raises OSError if it cannot be started."""
    process = _start_viewer(viewer, path)
    return await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True)


def _start_viewer(viewer: str, path: str) -> subprocess.Popen[bytes]:
    # Not by anyio: a process of it is killed with the event loop, and the picture would close with the
    # console.
    with without_memory_limit():
        return subprocess.Popen(
            [viewer, path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


async def run_program(argv: tuple[str, ...], lend: Lend) -> int:
    """Run a program on this terminal and return its exit status. Raises OSError if it cannot be started."""
    with without_memory_limit():
        process = await anyio.open_process(list(argv), stdin=None, stdout=None, stderr=None)
    # Where this console dies, the next one waits for the end of this program before it draws.
    lend(process.pid)
    try:
        async with process:
            return await process.wait()
    finally:
        lend(0)


async def run_on_terminal(lend: Lend, argv: tuple[str, ...], read: bool) -> int:
    """Run a program on this terminal with the person's own environment and without a shell. Returns its exit
    status. With `read`, wait for Enter afterwards, so that the person can read its output."""
    # The command line's output, which the console's first frame need not wait for.
    from flytui.cli.output import print_error

    if read:
        print_error(f"$ {shlex.join(argv)}")
    with _leave_interrupts_to_child():
        try:
            status = await run_program(argv, lend)
        except OSError as error:
            print_error(f"{argv[0]} cannot be started: {error.strerror or error}")
            status, read = NOT_STARTED, True
        if read:
            print_error(f"exit status {status} · Enter goes back to flytui")
            await anyio.to_thread.run_sync(_wait_for_enter, abandon_on_cancel=True)
    return status


def _wait_for_enter() -> None:
    """Wait for a line that is typed from now on, or until the terminal is closed."""
    # Keys that were typed while the program ran would end the wait at once.
    with suppress(OSError, termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    with suppress(OSError):
        os.read(sys.stdin.fileno(), 1_024)


@contextmanager
def _leave_interrupts_to_child() -> Iterator[None]:
    """Let ctrl+c and ctrl+\\ act only on the program that has the terminal."""
    # A program inherits an ignored signal, but not a handler. So the signals get a handler that does nothing.
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGQUIT)}
    for number in before:
        signal.signal(number, lambda *_: None)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
