"""Program values: the file that a declared command resolves to on this machine, and the seal over it."""

from __future__ import annotations

from collections.abc import Iterable

from flycore.model.base import Value
from flycore.model.enums import Anchor, PathState, ReasonCode, SealKind
from flycore.model.json import digest


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


class SealedPart(Value, frozen=True, kw_only=True):
    """A file or folder besides the program that its seal covers."""

    path: str
    why: str
    """What makes it a part: `argument`, `folder`, `working folder`, or the name of a variable."""
    digest: str


class Seal(Value, frozen=True, kw_only=True):
    """What was sealed of a program, and how it is kept from changing."""

    kind: SealKind
    digest: str
    """Digest over the program's bytes (for a copy, those of its whole folder), its interpreter's identity and
    all parts; for `bundled`, over the distribution."""
    program: str
    """Path of the sealed file."""
    note: str = ""
    """A sentence for the card, such as `editable: runs from its source folder`."""
    partial: tuple[str, ...] = ()
    """Why the program may run something that the seal does not hold, in words; empty for a complete seal."""
    parts: tuple[SealedPart, ...] = ()
    """What else the seal covers."""
    surroundings: str = ""
    """For a partial seal: the digest of the working folder. A lease ends when it changes; an approval of one
    call does not, because other work goes on in that folder."""
    leasable: bool = True
    """Whether a lease may permit further calls. False where a change of what may run would not be noticed, so
    that each call is asked."""
    copy: bool = False
    """Whether the call runs a private copy."""
    copies: tuple[tuple[str, str], ...] = ()
    """Folders that run from the content store: the path, and the digest of everything below it."""
    editable: bool = False

    @property
    def complete(self) -> bool:
        """Whether the program can run nothing that the seal does not hold."""
        return not self.partial


def first_partial(seals: Iterable[Seal]) -> str:
    """Return the first reason why one of the seals is partial; empty where all are complete."""
    return next((reason for seal in seals for reason in seal.partial), "")


def surroundings_of(seals: Iterable[Seal]) -> str:
    """Return one digest of the working folders that partial seals depend on; empty where there are none."""
    found = sorted({seal.surroundings for seal in seals if seal.surroundings})
    return digest([*found]) if found else ""


class ConfinementReport(Value, frozen=True, kw_only=True):
    """Whether a program ran confined, by what the command that confines it reported itself."""

    confined: bool
    """Whether the program ran, and confined. False where the report ends before that is known."""
    started: bool = False
    """Whether confining had at least begun, so that nothing can have run without it."""
    exit_code: int | None = None
    """The program's own, where the command's is another; negative for a signal."""
    first_process: int = 0
    """The id of the first process of the program's process namespace; 0 where it has none of its own."""


class ObserverOrder(Value, frozen=True, kw_only=True):
    """What is to be noted of a confined program, for the process that starts it. The values are those of
    `runners/child/observer_program.py`."""

    system_call: int
    """The number of `seccomp` on this machine."""
    filter: bytes
    """The filter whose calls wait for the observer."""
    granted: bytes
    """What was granted, and what the calls mean."""


class RestrictionOrder(Value, frozen=True, kw_only=True):
    """How the child gives up its rights itself, right before it executes its program."""

    module: str
    """The path of a file of Python that imports the standard library only. Its function `restrict` takes the
    order, and raises OSError where a right could not be given up."""
    order: bytes


class SealedDelegate(Value, frozen=True, kw_only=True):
    """A delegate as the card shows it and the subject's digest covers it."""

    name: str
    argv: tuple[str, ...]
    seal: Seal
