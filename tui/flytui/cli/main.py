"""The command `flytui`: opens the console, has a forked process run the command, or runs it here."""

from __future__ import annotations

import os
import sys

from flytui.forked.stub import run_forked


def run() -> int:
    """Be the program `flytui`, and return its exit code."""
    _open_standard_streams()
    code = run_forked(sys.argv)
    if code is None:
        code = main()
        from flytui.forked.forker_start import start_forker

        start_forker(os.environ)
    return code


def main() -> int:
    """Run the command in this process and return the exit code. Only a defect of flytui shows a traceback."""
    from flytui.cli.interrupts import end_on_signals, ignore_signals

    end_on_signals()
    try:
        return _run_command()
    finally:
        ignore_signals()


def _run_command() -> int:
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr] # always TextIOWrapper here
    # This process becomes the console's supervisor, which stays small: it never imports the command line.
    from flytui.supervisor.console_arguments import at_terminal, console_arguments

    console = console_arguments(sys.argv[1:])
    if console is not None and at_terminal():
        from flytui.supervisor.programs import open_console

        return open_console(*console)
    if "mcp" in sys.argv[1:]:
        from flytui.cli.early_mcp import begin

        begin(sys.argv[1:])
    from flytui.cli import root_command

    return root_command.run()


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
