"""The person's seat: the windows and processes of a console, which no tool may touch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flysafe.procfs import PROC, ProcFolder, ancestors, environment_value, process_table

Run = Callable[[tuple[str, ...]], str | None]
"""Runs a program to its end and gives its output, None where that fails."""
SCREEN = "screen"
"""`comm` of GNU screen's attached client; the server calls itself SCREEN."""


def find_own_windows(
    environ: Mapping[str, str], pid: int, run: Run, *, proc: ProcFolder = PROC
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Window ids and pids of the console `pid`: its own, its ancestors', and in tmux or screen those of
    the attached clients, each sorted. Never pid 0 or 1."""
    heads = {pid, *_clients(environ, run, proc)}
    pids = {member for head in heads for member in (head, *ancestors(head, proc))}
    words = [environ.get("WINDOWID", ""), *(environment_value(head, "WINDOWID", proc) for head in heads)]
    windows = {int(word) for word in words if word.isascii() and word.isdecimal()}
    return tuple(sorted(windows - {0})), tuple(sorted(pids - {0, 1}))


def _clients(environ: Mapping[str, str], run: Run, proc: ProcFolder) -> set[int]:
    """Pids of the terminal multiplexer's clients, through which the console may be seen."""
    tmux = environ.get("TMUX", "")
    if tmux:
        socket = tmux.rsplit(",", 2)[0]
        said = run(("tmux", "-S", socket, "list-clients", "-F", "#{client_pid}"))
        return {int(word) for word in (said or "").split() if word.isascii() and word.isdecimal()}
    return _screen_clients(proc) if environ.get("STY") else set()


def _screen_clients(proc: ProcFolder) -> set[int]:
    """Every attached screen client: screen has no command that lists those of one session."""
    return {process.pid for process in process_table(proc).values() if process.name == SCREEN}
