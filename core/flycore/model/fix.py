"""What a person can have done about a reason: the action behind its remedy, as data."""

from __future__ import annotations

from enum import StrEnum

from flycore.model.base import Value


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
