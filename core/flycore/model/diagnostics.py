"""Values for problems and what to do about them: diagnostics of files, fixes, and the checks of Doctor.

`nearest` finds the known names that a person may have meant by a mistyped one.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from enum import StrEnum

from flycore.model.base import Value

LONGEST = 128
"""Characters of a name that are compared, because the cost grows with the square of its length."""


def nearest(name: str, names: Iterable[str], *, count: int = 3) -> tuple[str, ...]:
    """Up to `count` of `names` that are close to `name`, closest first, without regard to case."""
    wanted = name[:LONGEST].casefold()
    spelled: dict[str, str] = {}
    for candidate in sorted(names):
        spelled.setdefault(candidate[:LONGEST].casefold(), candidate)
    return tuple(spelled[close] for close in get_close_matches(wanted, spelled, n=count, cutoff=0.6))


class Severity(StrEnum):
    """How serious a diagnostic is."""

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
    """For a file that does not parse: the faulty line, with a caret below it."""


class FixKind(StrEnum):
    """How a fix is carried out. A person has seen each fix before it is carried out."""

    COMMAND = "command"
    """Runs `argv` as it is, without a shell, in the person's terminal."""
    EDIT = "edit"
    """Opens `file` at `line` in the person's editor."""
    ENABLE = "enable"
    """Switches the sidecar on in its registry file."""
    TRUST = "trust"
    """Opens the question whether to trust the entry."""
    PROBE = "probe"
    """Probes the sidecar again."""
    INIT = "init"
    """Writes the starter registry."""
    PERMIT = "permit"
    """Adds the permissions that a call lacked to the entry, which then asks for trust again."""


class Fix(Value, frozen=True, kw_only=True):
    """The action behind a remedy. The kernel makes it from its own table, never from words of a sidecar or a
    package."""

    kind: FixKind
    words: str
    """What the fix does, as a sentence without a full stop."""
    argv: tuple[str, ...] = ()
    """For a COMMAND: a program, found on the person's PATH, and its arguments."""
    file: str = ""
    """For an EDIT: a path relative to the app root, below the person's home (`~/…`), or absolute."""
    line: int = 0
    """For an EDIT: the line, counted from 1; 0 where no line is meant."""
    difference: tuple[str, ...] = ()
    """For a PERMIT, and for an EDIT whose text is known: the change of the entry, as lines
    `- /pointer: before` and `+ /pointer: after`."""
    digest: str = ""
    """For a PERMIT: the digest of the entry and of what is added, so that what is added is what was shown."""


class CheckState(StrEnum):
    """The result of a check. `fail` is a fault of the configuration; `warn` may be what you want."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(Value, frozen=True, kw_only=True):
    """One check of Doctor."""

    name: str
    state: CheckState
    message: str
    fix: str = ""
    """What you can do; empty where there is nothing to do."""
    remedy_fix: Fix | None = None
    """A fix that can be carried out at once, after a person has seen it."""
    sidecar: str = ""
    """Id of the sidecar that the check is about; `""` for none."""
    difference: tuple[str, ...] = ()
    """For a check of a change: the difference, as lines `- /pointer: before` and `+ /pointer: after`."""
