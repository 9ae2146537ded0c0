"""Recognises the command lines that open the console, without a library for command lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

MAX_ROOTS = 16
"""The most roots that one console opens: each has a kernel of its own."""
_FOLDERS = ("--root", "--workspace")
_FLAGS = ("--plain",)


def console_arguments(words: Sequence[str]) -> tuple[tuple[str, ...], str | None] | None:
    """Return roots and workspace where these words open the console; None where the command line decides.

    Only words that are right in every respect are taken. Everything else, and every message about a mistake,
    is the command line's.
    """
    roots: list[str] = []
    workspaces: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in _FOLDERS:
            folder = value if equals else next(rest, "")
            if not os.path.isdir(folder) or not os.access(folder, os.R_OK):
                return None
            (roots if name == "--root" else workspaces).append(folder)
        elif word not in _FLAGS:
            return None
    found = distinct_roots(roots)
    # A workspace is the folder of one root; and whatever is too much is refused by the command line.
    if len(found) > MAX_ROOTS or (len(found) > 1 and workspaces):
        return None
    return found, workspaces[-1] if workspaces else None


def distinct_roots(roots: Sequence[str]) -> tuple[str, ...]:
    """The roots, each folder once: a link leads to the same kernel as the folder itself."""
    found: dict[str, str] = {}
    for root in roots:
        found.setdefault(os.path.realpath(root), root)
    return tuple(found.values())


def at_terminal() -> bool:
    """Whether the console can be drawn here and take keys."""
    # Keys come from standard input, and Textual draws on standard error where standard output is no terminal.
    # So all three have to be the terminal.
    return sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty() and not is_dumb_terminal()


def is_dumb_terminal() -> bool:
    """Whether the terminal cannot move its cursor, as `TERM=dumb` says."""
    return os.environ.get("TERM") == "dumb"
