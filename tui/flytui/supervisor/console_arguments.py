"""Recognises the command lines that open the console, without a library for command lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_FOLDERS = ("--root", "--workspace")
_FLAGS = ("--plain",)


def console_arguments(words: Sequence[str]) -> tuple[str | None, str | None] | None:
    """Return root and workspace where these words open the console; None where the command line decides.

    Only words that are right in every respect are taken. Everything else, and every message about a mistake,
    is the command line's.
    """
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in _FOLDERS:
            folder = value if equals else next(rest, "")
            if not os.path.isdir(folder) or not os.access(folder, os.R_OK):
                return None
            found[name] = folder
        elif word not in _FLAGS:
            return None
    return found.get("--root"), found.get("--workspace")


def at_terminal() -> bool:
    """Whether the console can be drawn here and take keys."""
    # Keys come from standard input, and Textual draws on standard error where standard output is no terminal.
    # So all three have to be the terminal.
    return sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty() and not is_dumb_terminal()


def is_dumb_terminal() -> bool:
    """Whether the terminal cannot move its cursor, as `TERM=dumb` says."""
    return os.environ.get("TERM") == "dumb"
