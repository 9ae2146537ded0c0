"""The command `flytui`: opens the console, or runs a command of the command line."""

from __future__ import annotations

import os
import sys

from flytui.cli.interrupts import end_on_signals, ignore_signals


def run() -> int:
    """Be the program `flytui`: run the command and return the exit code, or leave with it at once."""
    code, is_done = _run()
    if is_done:
        # The interpreter would take apart every module before it leaves, which takes an eighth to a quarter
        # of the time of a command that reads.
        os._exit(code)
    return code


def main() -> int:
    """Run the command and return the exit code. Only a defect of flytui shows a traceback."""
    return _run()[0]


def _run() -> tuple[int, bool]:
    """Run the command. Returns the exit code, and whether it left nothing to do for the interpreter's end."""
    end_on_signals()
    try:
        return _run_command()
    finally:
        ignore_signals()


def _run_command() -> tuple[int, bool]:
    _open_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr] # always TextIOWrapper here
    # This process becomes the console's supervisor, which stays small: it never imports the command line.
    from flytui.supervisor.console_arguments import at_terminal, console_arguments

    console = console_arguments(sys.argv[1:])
    if console is not None and at_terminal():
        from flytui.supervisor.programs import open_console

        return open_console(*console), False
    if "mcp" in sys.argv[1:]:
        from flytui.cli.early_mcp import begin

        begin(sys.argv[1:])
    from flytui.cli.direct import run_direct

    code = run_direct(sys.argv[1:])
    if code is not None:
        return code, _is_written()
    from flytui.cli import root_command

    code = root_command.run()
    return code, _is_written() and _needs_no_end()


def _needs_no_end() -> bool:
    """Returns whether the interpreter's end has nothing to do: no other thread runs, no launcher was made."""
    # There, threads are waited for, and the launcher, which starts programs, is told to leave.
    threads, launcher = sys.modules.get("threading"), sys.modules.get("flycore.runners.child.launcher")
    return launcher is None and (threads is None or threads.active_count() == 1)


def _is_written() -> bool:
    """Write what waits in the standard streams. Returns whether nothing of it is left."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return False  # the interpreter says so at its own end
    return True


def _open_standard_streams() -> None:
    """Open the null device for every standard stream that is closed."""
    # Otherwise a file that is opened later gets the number of the stream, and messages are written into it.
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - for good
