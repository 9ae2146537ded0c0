"""A problem found in a file a person wrote: where it is, what is wrong, what to write instead."""

from __future__ import annotations

from enum import StrEnum

from flycore.model.base import Value


class Severity(StrEnum):
    """How much a diagnostic weighs."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Position(Value, frozen=True, kw_only=True):
    """A place in a file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Diagnostic(Value, frozen=True, kw_only=True):
    """One finding about a registry, policy or settings file."""

    severity: Severity
    rule: str
    """Stable id of the check, such as `duplicate-key`."""
    message: str
    remedy: str = ""
    pointer: str = ""
    """JSON pointer of the offending value, `""` for the whole file."""
    position: Position | None = None
    sidecar: str | None = None
    excerpt: str = ""
    """The line and a caret below it, for a file that does not parse."""


# What a person can have done about a reason: the action behind its remedy, as data.


class FixKind(StrEnum):
    """How a fix is done. None is done without a person who has seen it."""

    COMMAND = "command"
    """`argv` is run as it stands, without a shell, on the person's terminal."""
    EDIT = "edit"
    """`file` is opened at `line` in the person's editor."""
    ENABLE = "enable"
    """The sidecar is switched on in its registry file."""
    TRUST = "trust"
    """The trust question is opened."""
    PROBE = "probe"
    """The sidecar is asked again."""
    INIT = "init"
    """The starter registry is written."""


class Fix(Value, frozen=True, kw_only=True):
    """Made by the kernel from its own table, never from words of a sidecar or a package."""

    kind: FixKind
    words: str
    """What it does, as a sentence without a full stop."""
    argv: tuple[str, ...] = ()
    """Of a COMMAND: a program, looked for on the person's PATH, and its arguments."""
    file: str = ""
    """Of an EDIT: relative to the app root, `~/…` below the person's home, or absolute."""
    line: int = 0
    """Of an EDIT, from 1; 0 where no line is meant."""


# A check of everything flytui stands on: one line of Doctor.


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
