"""Program values: the file that a declared command resolves to on this machine, and the seal over it."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.enums import Anchor, PathState, ReasonCode, SealKind


class ResolvedProgram(Value, frozen=True, kw_only=True):
    """A declared command with the file it resolves to. `argv` is what is run; it is empty unless `state` is
    `resolved`."""

    state: PathState
    mode: str
    """`relative` (`./…`), `path` (a bare name) or `url` (an MCP server on HTTP: no path, no `argv`)."""
    base: Anchor
    declared: str
    """The command as the entry names it."""
    path: str = ""
    """Absolute path of the file, with links resolved."""
    argv: tuple[str, ...] = ()
    interpreter: str = ""
    """Absolute path of the interpreter of a `#!` line, with links resolved; empty for a binary."""
    interpreter_argv: tuple[str, ...] = ()
    """The interpreter as the `#!` line names it, with its argument; `env NAME` is already resolved."""
    portable: bool = False
    """Whether the declaration means the same on another machine."""
    root_safe: bool = False
    """Whether the file lies below its anchor, or was found on PATH by a bare name."""
    reason: ReasonCode | None = None
    message: str = ""
    remedy: str = ""
    wanted: str = ""
    """Name of a program that was not found on PATH."""
    shut: str = ""
    """Absolute path of a file that exists and lacks only the permission to be executed."""


class Seal(Value, frozen=True, kw_only=True):
    """What was sealed of a program, and how it is kept from changing."""

    kind: SealKind
    digest: str
    """Digest over the program's bytes (for a copy, those of its whole folder) and its interpreter's identity;
    for `bundled`, over the distribution."""
    program: str
    """Path of the sealed file."""
    note: str = ""
    """A sentence for the card, such as `may load other files, not sealed`."""
    leasable: bool = True
    """Whether a lease may permit further calls. False where the program cannot be kept from changing, so that
    each call is asked."""
    copy: bool = False
    """Whether the call runs a private copy."""
    copies: tuple[tuple[str, str], ...] = ()
    """Folders that run from the content store: the path, and the digest of everything below it."""
    editable: bool = False


class SealedDelegate(Value, frozen=True, kw_only=True):
    """A delegate as the card shows it and the subject's digest covers it."""

    name: str
    argv: tuple[str, ...]
    seal: Seal
