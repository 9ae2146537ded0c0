"""The command line without its first decision: the group of all commands, and exceptions as messages."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable

import click

from flycore import __version__
from flycore.model.errors import ConnectionLost, FlyError, KernelFailed, RootBusy, StateUnwritable
from flytui.cli.command_group import LazyGroup
from flytui.cli.interrupts import SignalInterrupt
from flytui.cli.invocation import Invocation, common
from flytui.cli.output import discard, print_error
from flytui.supervisor.console_arguments import MAX_ROOTS, at_terminal, distinct_roots, is_dumb_terminal
from flytui.supervisor.programs import open_console
from flytui.text.kernels import clock_time, kernel_name

EXIT_USAGE = 2
EXIT_NOTHING_FOUND = 3
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
@click.option(
    "--all",
    "every_root",
    is_flag=True,
    help="Open the console on every root where a kernel runs or a request waits.",
)
@click.option("--version", is_flag=True, help="Print the version.")
@common
def flytui(invocation: Invocation, list_tools: bool, every_root: bool, version: bool) -> int:
    """See, understand and approve what AI agents do with external tools.

    Without a command: the console; without a terminal: the catalog. The console runs beside its kernel in
    a process of its own. If it dies, calls go on and a new console opens. With several --root, or with --all,
    one console shows what waits at all of these roots in one queue.
    """
    if click.get_current_context().invoked_subcommand is not None:
        if every_root:
            raise click.UsageError("--all before a command means nothing: it opens the console")
        return 0
    if version:
        click.echo(f"flytui {__version__}")
        return 0
    if list_tools:
        # A command imports only itself.
        from flytui.cli.commands.tools import list_visible

        return list_visible(invocation)
    several = every_root or len(invocation.roots) > 1
    if several and (invocation.as_json or not at_terminal()):
        raise click.UsageError("several roots open in a console, and a console needs a terminal")
    if invocation.as_json or not at_terminal():
        # A command imports only itself.
        from flytui.cli.commands.catalog import show_catalog

        if is_dumb_terminal() and sys.stdout.isatty():
            print_error("TERM=dumb: no console can be drawn here, so this is the catalog")
        return show_catalog(invocation, words=(), everything=False)
    return _open_console(invocation, every_root)


def _open_console(invocation: Invocation, every_root: bool) -> int:
    roots = invocation.roots
    if every_root:
        # The kernel's queue of requests, for which every other command would wait.
        from flycore.offline.active_roots import active_roots

        roots = distinct_roots((*roots, *active_roots(os.environ)))
        if not roots:
            none = "no kernel runs on any root, and no request waits: name a root, as flytui --root DIR"
            return print_failure(none, EXIT_NOTHING_FOUND)
    if len(roots) > 1 and invocation.workspace is not None:
        raise click.UsageError("--workspace is the folder of one root: leave it out, or name one --root")
    if len(roots) > MAX_ROOTS:
        names = ", ".join(map(shlex.quote, roots))
        raise click.UsageError(f"a console opens at most {MAX_ROOTS} roots, and these are more: {names}")
    return open_console(roots, invocation.workspace)


def run() -> int:
    """Run the command line and return the exit code. Only a defect of flytui shows a traceback."""
    try:
        code = explain(lambda: flytui.main(prog_name="flytui", standalone_mode=False))
        sys.stdout.flush()
    except OSError as error:  # from the last flush, since `explain` handles its own
        return output_failed(error)
    return code


def output_failed(error: OSError) -> int:
    """Say that standard output cannot be written, where somebody may read that, and return the exit code."""
    if not isinstance(error, BrokenPipeError):
        print_failure(f"standard output cannot be written: {error.strerror}", EXIT_BROKEN_PIPE)
    return _discard_output()


def explain(work: Callable[[], object], report: Callable[[str, int], int] | None = None) -> int:
    """Run `work` and return its exit code. What a person can understand and change is passed to `report` as a
    sentence with its exit code, and by default printed; other exceptions are raised."""
    say = report or print_failure
    try:
        code = work()
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 128 + signal.SIGINT
    except SignalInterrupt as interrupted:
        return interrupted.exit_code
    except click.ClickException as problem:
        return _refuse(problem)
    except RootBusy as busy:
        return say(root_busy_text(busy), EXIT_CONFIGURATION)
    except ConnectionLost as lost:
        return say(str(lost) or "the kernel went away before it answered", EXIT_LOST)
    except (KernelFailed, StateUnwritable) as error:
        return say(str(error), EXIT_CONFIGURATION)
    except FlyError as error:
        return say(str(error), 1)
    except BrokenPipeError:
        raise
    except OSError as error:
        return say(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "), EXIT_CONFIGURATION)
    return code if isinstance(code, int) else 0


def root_busy_text(busy: RootBusy) -> str:
    """The message on who holds the root, since when, and what you can do."""
    name = kernel_name(busy.role, busy.on_demand)
    holder = f"pid {busy.pid} ({name}), since {clock_time(busy.since)}" if busy.pid else "another process"
    if busy.role == "headless" and not busy.on_demand:
        return f"this root is held by {holder}. One kernel serves a root: end it before you start another."
    if busy.role != "console":
        return f"this root is held by {holder}. Try again when that has ended."
    return f"this root is held by {holder}. Go there, or end it first."


def _refuse(problem: click.ClickException) -> int:
    context = getattr(problem, "ctx", None)
    if isinstance(context, click.Context):
        print_failure(context.get_usage(), EXIT_USAGE)
    print_failure(problem.format_message().replace("\n\t", " "), EXIT_USAGE)
    return problem.exit_code if problem.exit_code != 1 else EXIT_USAGE


def print_failure(sentence: str, code: int) -> int:
    """Print the sentence to standard error, and return the code."""
    print_error(sentence)
    return code


def _discard_output() -> int:
    # The interpreter flushes standard output at exit, and would print an error about the closed pipe.
    discard(sys.stdout)
    return EXIT_BROKEN_PIPE
