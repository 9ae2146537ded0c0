"""Finds the windows and processes of a console, which no tool may touch."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from flysafe.procfs import PROC, ProcFolder, ancestors, environment_value, process_table
from flytui.cli.terminal import run_tool

Run = Callable[[tuple[str, ...]], str | None]
"""Runs a program and returns its output; None where it fails."""
SCREEN = "screen"
"""The process name of an attached client of GNU screen; its server is named SCREEN."""


def find_console_windows() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Find the windows and processes of this console, which no desktop tool may touch."""

    return find_own_windows(os.environ, os.getpid(), run_tool)


def find_own_windows(
    environ: Mapping[str, str], pid: int, run: Run, *, proc: ProcFolder = PROC
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The window ids and the pids of the console `pid` and its ancestors, and in tmux or screen of the
    attached clients as well. Both are sorted, and the pids never contain 0 or 1."""
    # In tmux or screen the console is a child of the server. Its window belongs to the ancestors of a client.
    roots = {pid, *_clients(environ, run, proc)}
    pids = {member for root in roots for member in (root, *ancestors(root, proc))}
    words = [environ.get("WINDOWID", ""), *(environment_value(root, "WINDOWID", proc) for root in roots)]
    windows = {int(word) for word in words if word.isascii() and word.isdecimal()}
    return tuple(sorted(windows - {0})), tuple(sorted(pids - {0, 1}))


def _clients(environ: Mapping[str, str], run: Run, proc: ProcFolder) -> set[int]:
    """The pids of the clients of tmux or screen that may show the console."""
    tmux = environ.get("TMUX", "")
    if tmux:
        socket = tmux.rsplit(",", 2)[0]
        output = run(("tmux", "-S", socket, "list-clients", "-F", "#{client_pid}"))
        return {int(word) for word in (output or "").split() if word.isascii() and word.isdecimal()}
    return _screen_clients(proc) if environ.get("STY") else set()


def _screen_clients(proc: ProcFolder) -> set[int]:
    """The pids of all attached clients of screen, which has no command that lists those of one session."""
    return {process.pid for process in process_table(proc).values() if process.name == SCREEN}
