"""The command `flytui` as programs that start again what dies as often as it dies, and consoles that fail."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from flytui.supervisor import supervisor
from kits.command import COMMAND
from kits.command_line import LONGEST, Desk, Terminal
from kits.fork_server import ForkedProcess, ForkServer

SECRET = "the input of a call"


def without_limit() -> int:
    """The entry of a command that never gives up."""
    supervisor.DEATHS_WITHIN_S = -1.0
    from flytui.cli.main import main

    return main()


def failing() -> int:
    """The entry of a command whose console fails when its help is opened."""
    from flytui.cli.main import main
    from flytui.console.app import FlytuiApp

    def action_help(self: FlytuiApp) -> None:
        quoted = SECRET
        raise ValueError(quoted)

    FlytuiApp.action_help = action_help  # type: ignore[method-assign] # in the process of a test only
    return main()


WITHOUT_LIMIT = ForkServer("kits.restarts:without_limit", COMMAND.preload)
FAILING = ForkServer("kits.restarts:failing", COMMAND.preload)


class ConsoleTerminal(Terminal):
    """A terminal of 100 columns and 30 rows on which a console runs."""

    def attributes(self) -> list[object]:
        """The terminal's attributes, as `termios.tcgetattr` returns them."""
        return list(termios.tcgetattr(self._outer))


@contextmanager
def console_of(
    desk: Desk, program: ForkServer = COMMAND, argv: Sequence[str] = ()
) -> Iterator[ConsoleTerminal]:
    """Run a console as that program, or by that command line. At the end it is asked to leave."""
    outer, inner = pty.openpty()
    os.set_blocking(outer, False)
    fcntl.fcntl(outer, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    termios.tcsetwinsize(inner, (30, 100))
    process: subprocess.Popen[bytes] | ForkedProcess
    if argv:
        streams = {"stdin": inner, "stdout": inner, "stderr": inner}
        process = subprocess.Popen(argv, env=desk.environ, cwd=desk.root, start_new_session=True, **streams)
        os.close(inner)
    else:
        process = program.start_on_terminal(desk.argv()[2:], desk.environ, desk.root, inner)
    shown = ConsoleTerminal(process, outer)
    try:
        yield shown
    finally:
        process.send_signal(signal.SIGTERM)
        shown.end()
        process.wait(LONGEST)
        os.close(outer)
