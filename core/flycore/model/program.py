"""Where a declared command leads on this machine."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.enums import Anchor, PathState, ReasonCode, SealKind


class ResolvedProgram(Value, frozen=True, kw_only=True):
    """A command followed to a file. `argv` is what is executed; empty unless `state` is resolved."""

    state: PathState
    mode: str
    """`relative` (`./…`), `path` (a bare name) or `url` (an MCP server on HTTP: no path, no `argv`)."""
    base: Anchor
    declared: str
    """The command as the entry names it."""
    path: str = ""
    """Absolute path of the file, links followed."""
    argv: tuple[str, ...] = ()
    interpreter: str = ""
    """Absolute path of the interpreter of a `#!` line, links followed; empty for a binary."""
    interpreter_argv: tuple[str, ...] = ()
    """The interpreter as the `#!` line names it, with its argument; `env NAME` already followed."""
    portable: bool = False
    """Whether the declaration means the same on another machine."""
    root_safe: bool = False
    """Whether the file lies below its anchor, or was found on PATH by a bare name."""
    reason: ReasonCode | None = None
    message: str = ""
    remedy: str = ""
    wanted: str = ""
    """Name of a program that was looked for on PATH and is not there."""
    shut: str = ""
    """Absolute path of the file that is there and lacks only the permission to be executed."""


class Seal(Value, frozen=True, kw_only=True):
    """What was sealed of a program, and how it holds."""

    kind: SealKind
    digest: str
    """Over the program's bytes, for a copy those of its whole folder, and its interpreter's identity; for
    `bundled` over the distribution."""
    program: str
    """Path of the sealed file."""
    note: str = ""
    """A sentence for the card, such as `may load other files, not sealed`."""
    leasable: bool = True
    """False where each call has to be asked: what runs cannot be held still."""
    copy: bool = False
    """Whether the call runs a private copy."""
    copies: tuple[tuple[str, str], ...] = ()
    """Folders that are run from the content store: path, and digest of everything below it."""
    editable: bool = False


class SealedDelegate(Value, frozen=True, kw_only=True):
    """A delegate as the card shows it and the digest holds it."""

    name: str
    argv: tuple[str, ...]
    seal: Seal
