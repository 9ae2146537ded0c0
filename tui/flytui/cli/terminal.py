"""Reads the facts about this terminal."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping

from flytui.console.doctor.terminal_checks import TerminalFacts, TmuxFacts
from flytui.console.terminal_guard import find_key_risk

TOOL_SECONDS = 2.0
"""Seconds that a terminal multiplexer may take to answer."""


def terminal_size() -> tuple[int, int] | None:
    """The columns and rows of the terminal; None where standard output is no terminal."""
    if not sys.stdout.isatty():
        return None
    size = shutil.get_terminal_size()
    return size.columns, size.lines


def find_terminal(size: tuple[int, int] | None, encoding: str, environ: Mapping[str, str]) -> TerminalFacts:
    """The facts about the terminal of that size. In tmux, tmux is asked as well."""
    return TerminalFacts(
        size,
        encoding,
        environ,
        _tmux() if environ.get("TMUX") else None,
        key_risk=find_key_risk(),
    )


def _tmux() -> TmuxFacts:
    if shutil.which("tmux") is None:
        return TmuxFacts(found=False, clipboard="")
    clipboard, focus_events = (
        (run_tool(("tmux", "show-options", "-sv", option)) or "").strip()
        for option in ("set-clipboard", "focus-events")
    )
    return TmuxFacts(found=True, clipboard=clipboard, focus_events=focus_events)


def run_tool(argv: tuple[str, ...]) -> str | None:
    """The output of a program on PATH; None where it fails or does not end in time."""
    program = shutil.which(argv[0])
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *argv[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TOOL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
