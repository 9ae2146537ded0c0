"""A check of everything flytui stands on: one line of Doctor."""

from __future__ import annotations

from enum import StrEnum

from flycore.model.base import Value
from flycore.model.fix import Fix


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
    remedy_fix: Fix | None = None
    """What can be done about it at once, by a person who has seen it."""
    sidecar: str = ""
    """Id of the sidecar it is about; `""` for none."""
    difference: tuple[str, ...] = ()
    """What differs, where the check is about a change: lines `- /pointer: before`, `+ /pointer: after`."""
