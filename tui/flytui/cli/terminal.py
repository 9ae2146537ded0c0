"""Finds out what terminal this is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flytui.console.doctor.terminal import TerminalFacts, Tmux

TOOL_SECONDS = 2.0
"""How long a terminal multiplexer may take to answer."""


def find_terminal(run: Callable[[tuple[str, ...]], str | None] | None = None) -> TerminalFacts:
    """The terminal on standard output. Inside tmux that is asked, through `run`."""
    from flytui.console.doctor.terminal import TerminalFacts

    size = shutil.get_terminal_size() if sys.stdout.isatty() else None
    return TerminalFacts(
        size=(size.columns, size.lines) if size else None,
        encoding=sys.stdout.encoding,
        environ=dict(os.environ),
        tmux=_tmux(run or run_tool) if os.environ.get("TMUX") else None,
    )


def _tmux(run: Callable[[tuple[str, ...]], str | None]) -> Tmux:
    from flytui.console.doctor.terminal import Tmux

    if shutil.which("tmux") is None:
        return Tmux(found=False, clipboard="")
    return Tmux(found=True, clipboard=(run(("tmux", "show-options", "-sv", "set-clipboard")) or "").strip())


def run_tool(argv: tuple[str, ...]) -> str | None:
    """Output of a program found on PATH; None where it fails or does not answer in time."""
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
