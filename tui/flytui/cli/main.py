"""The command `flytui`, which opens the console or runs a command, and turns exceptions into messages."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from flytui.cli.command_group import LazyGroup
from flytui.cli.interrupts import SignalInterrupt
from flytui.cli.invocation import Invocation, common

if TYPE_CHECKING:
    from flycore.model.errors import RootBusy

EXIT_USAGE = 2
EXIT_CONFIGURATION = 5
EXIT_LOST = 7
EXIT_BROKEN_PIPE = 1
"""The reader of standard output is gone. click uses the same exit code."""


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--list-tools", is_flag=True, help="The same as `flytui tools list`.")
@click.option("--version", is_flag=True, help="Print the version.")
@common
def flytui(invocation: Invocation, list_tools: bool, version: bool) -> int:
    """See, understand and approve what AI agents do with external tools.

    Without a command: the console; without a terminal: the catalog.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return 0
    if version:
        from flycore import __version__

        click.echo(f"flytui {__version__}")
        return 0
    if list_tools:
        from flytui.cli.commands.tools import list_visible

        return list_visible(invocation)
    from flytui.cli.output import at_terminal, is_dumb_terminal, print_error

    if invocation.as_json or not at_terminal():
        from flytui.cli.commands.catalog import show_catalog

        if is_dumb_terminal() and sys.stdout.isatty():
            print_error("TERM=dumb: no console can be drawn here, so this is the catalog")
        return show_catalog(invocation, words=(), everything=False)
    from flytui.cli.console import open_console

    return open_console(invocation)


def main() -> int:
    """Run the command line and return the exit code. Only a defect of flytui shows a traceback."""
    signal.signal(signal.SIGTERM, _exit_on_signal)
    _open_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr] # always TextIOWrapper here
    try:
        code = _run()
        sys.stdout.flush()
    except BrokenPipeError:
        return _discard_output()
    except OSError as error:  # from the last flush, since `_run` handles its own
        _print_failure(f"standard output cannot be written: {error.strerror}", EXIT_BROKEN_PIPE)
        return _discard_output()
    return code


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


def _run() -> int:
    from flycore.model.errors import ConnectionLost, FlyError, RootBusy

    try:
        code = flytui.main(prog_name="flytui", standalone_mode=False)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 128 + signal.SIGINT
    except SignalInterrupt as interrupted:
        return interrupted.exit_code
    except click.ClickException as problem:
        return _refuse(problem)
    except RootBusy as busy:
        return _print_failure(root_busy_text(busy), EXIT_CONFIGURATION)
    except ConnectionLost as lost:
        return _print_failure(str(lost) or "the kernel went away before it answered", EXIT_LOST)
    except FlyError as error:
        return _print_failure(str(error), 1)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _print_failure(
            f"{error.strerror or error}: {error.filename or ''}".rstrip(": "), EXIT_CONFIGURATION
        )
    return code if isinstance(code, int) else 0


def root_busy_text(busy: RootBusy) -> str:
    """The message on who holds the root, since when, and what you can do."""
    from flytui.cli.output import clock_time

    holder = (
        f"pid {busy.pid} ({busy.role}), since {clock_time(busy.since)}" if busy.pid else "another process"
    )
    if busy.role == "serve":
        return f"this root is held by {holder}. One kernel serves a root: end it before you start another."
    if busy.role != "console":
        return f"this root is held by {holder}. Try again when that has ended."
    return f"this root is held by {holder}. Go there, or end it first."


def _refuse(problem: click.ClickException) -> int:
    context = getattr(problem, "ctx", None)
    if isinstance(context, click.Context):
        _print_failure(context.get_usage(), EXIT_USAGE)
    _print_failure(problem.format_message().replace("\n\t", " "), EXIT_USAGE)
    return problem.exit_code if problem.exit_code != 1 else EXIT_USAGE


def _print_failure(sentence: str, code: int) -> int:
    from flytui.cli.output import print_error

    print_error(sentence)
    return code


def _discard_output() -> int:
    from flytui.cli.output import discard

    # The interpreter flushes standard output at exit, and would print an error about the closed pipe.
    discard(sys.stdout)
    return EXIT_BROKEN_PIPE


def _exit_on_signal(signum: int, frame: object) -> NoReturn:
    sys.exit(128 + signum)
