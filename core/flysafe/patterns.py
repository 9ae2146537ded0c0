"""Parts of regular expressions that give nothing back, so that a search stays linear in its text."""

from __future__ import annotations

import sys

_WORKS = sys.version_info >= (3, 11, 5)


def repeated(body: str, times: str = "*") -> str:
    """Return the pattern of a repetition of `body`, as often as it matches and `times` (`*`, `+`, `{1,9}`)
    allows. It never gives a repetition back.

    Before Python 3.11.5, a possessive repetition of a group goes on at a wrong place where its last attempt
    fails after its first character (issue 106052 of CPython). Debian 12 has such a version, and there an
    atomic group does the same, and takes some memory for each repetition. A single character or class can be
    repeated possessively in all versions.
    """
    return possessive(body, times) if _WORKS else atomic(body, times)


def possessive(body: str, times: str = "*") -> str:
    """Return `repeated(body, times)` for versions of Python in which that works."""
    return f"(?:{body}){times}+"


def atomic(body: str, times: str = "*") -> str:
    """Return `repeated(body, times)` for older versions of Python."""
    return f"(?>(?:{body}){times})"
