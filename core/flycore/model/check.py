"""A check of everything flytui stands on: one line of Doctor."""

from __future__ import annotations

from enum import StrEnum

from flycore.model.base import Value


class CheckState(StrEnum):
    """How a check ended. `fail` is an error of configuration; `warn` may be as wanted."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(Value, frozen=True, kw_only=True):
    """One line of Doctor."""

    name: str
    state: CheckState
    message: str
    fix: str = ""
    """What to do; empty where nothing is to be done."""
    difference: tuple[str, ...] = ()
    """What differs, where the check is about a change: lines `- /pointer: before`, `+ /pointer: after`."""
