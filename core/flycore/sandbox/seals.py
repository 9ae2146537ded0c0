"""Seals: what «the program» means when it is approved, and running exactly that.

Hashing a path and executing the path later loses the race against whoever swaps the file in between. A
program this user can write is therefore run from a private copy whose bytes are hashed as they are copied;
where a copy cannot work, the seal says so and is good for one question only.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from flycore.model.canonical import digest
from flycore.model.enums import SealKind
from flycore.model.program import ResolvedProgram, Seal
from flycore.sandbox.digests import file_digest, open_regular, read_through
from flycore.sandbox.distribution import SIDECARS, Distribution, find_distribution

__all__ = ["Distribution", "SealBroken", "find_distribution", "is_bundled", "materialise", "seal_program"]

NOT_SEALED = "may load other files, not sealed"
PACKAGES_PREFIX = "./tools/packages/"
_INTERPRETERS = re.compile(
    r"(python|pypy|node|deno|bun|ruby|perl|php|lua|Rscript|java|osascript|pwsh|env|busybox|(ba|da|z|k|a|fi)?sh"
    r"|npx|npm|uvx?|pipx|make)[\d.]*"
)


class SealBroken(OSError):  # noqa: N818 - says what the seal is
    """What would be run is not what was sealed, or it cannot be copied. Nothing may be run."""


def seal_program(program: ResolvedProgram, *, in_place: bool, distribution: Distribution | None) -> Seal:
    """What is sealed of a resolved program; the same program gives the same digest again.

    `in_place` forbids the private copy (`"seal": "in-place"`, delegates). Raises OSError, with the file's
    name, where something cannot be read.
    """
    if distribution is not None and is_bundled(program, distribution):
        return _bundled(program, distribution)
    packaged = program.declared.startswith(PACKAGES_PREFIX)
    if not packaged and all(map(_holds_still, filter(None, (program.path, program.interpreter)))):
        return _system(program)
    alone = len(os.listdir(os.path.dirname(program.path))) == 1
    copy = alone and not in_place and not packaged
    return Seal(
        kind=SealKind.FILE,
        digest=_digest(program, SealKind.FILE, file_digest(program.path)[1]),
        program=program.path,
        note="" if copy else NOT_SEALED,
        leasable=copy,
        copy=copy,
    )


def materialise(program: ResolvedProgram, seal: Seal, folder: Path) -> tuple[str, ...]:
    """The argv to run. Where the seal wants a copy it is made in `folder`, which is created, private.

    Raises SealBroken when the bytes copied, or the interpreter, are not what was sealed.
    """
    if not seal.copy:
        return program.argv
    target = folder / os.path.basename(program.path)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        copied = _digest(program, seal.kind, _copy(program.path, target))
    except OSError as fault:
        # a write names no file: what lacks room then is the folder of the copy
        raise SealBroken(fault.errno, fault.strerror or str(fault), fault.filename or str(folder)) from fault
    if copied != seal.digest:
        target.unlink()
        raise SealBroken(None, "is not what was sealed", program.path)
    return (*program.interpreter_argv, str(target), *_arguments(program))


def _copy(source: str, target: Path) -> str:
    """Copy and hash in one pass over one descriptor; the copy can be executed and not written."""
    reading = open_regular(source)
    try:
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o500)
        with os.fdopen(writing, "wb") as file:
            return read_through(reading, source, file.write)
    finally:
        os.close(reading)


def is_bundled(program: ResolvedProgram, distribution: Distribution) -> bool:
    """Whether it is the console script of this distribution, starting one of its sidecars."""
    arguments = _arguments(program)
    return program.path == distribution.script and bool(arguments) and arguments[0] in SIDECARS


def _bundled(program: ResolvedProgram, distribution: Distribution) -> Seal:
    try:
        files = distribution.digest()
    except OSError as fault:
        return Seal(
            kind=SealKind.FILE,
            digest=_digest(program, SealKind.FILE, file_digest(program.path)[1]),
            program=program.path,
            note=f"flytui's own, but {fault.filename} {fault.strerror}: not sealed",
            leasable=False,
        )
    return Seal(
        kind=SealKind.BUNDLED,
        digest=_digest(program, SealKind.BUNDLED, files),
        program=program.path,
        note="editable: runs from its source folder" if distribution.editable else "",
        editable=distribution.editable,
    )


def _system(program: ResolvedProgram) -> Seal:
    about, content = file_digest(program.path)
    runs_others = bool(_arguments(program)) and _INTERPRETERS.fullmatch(os.path.basename(program.path))
    return Seal(
        kind=SealKind.SYSTEM,
        digest=_digest(program, SealKind.SYSTEM, [*about, content]),
        program=program.path,
        note=NOT_SEALED if runs_others else "",
        leasable=not runs_others,
    )


def _digest(program: ResolvedProgram, kind: SealKind, content: str | list[int | str]) -> str:
    interpreter: list[int | str] = []
    if program.interpreter:
        about, sha = file_digest(program.interpreter)
        interpreter = [program.interpreter, *about, sha, *program.interpreter_argv]
    return digest({"kind": kind, "program": program.path, "content": content, "interpreter": interpreter})


def _arguments(program: ResolvedProgram) -> tuple[str, ...]:
    """What follows the program in its argv, whether or not an interpreter comes before it."""
    before = len(program.interpreter_argv)
    started_by = before if before and program.argv[:before] == program.interpreter_argv else 0
    return program.argv[started_by + 1 :]


def _holds_still(path: str) -> bool:
    """Whether this user can change neither the file nor any folder on the way to it.

    Root can change everything: for root, what root owns and nobody else may write counts.
    """
    user = os.geteuid()
    current = path
    while True:
        about = os.stat(current, follow_symlinks=False)
        if user == 0:
            writable = about.st_uid != 0 or bool(about.st_mode & 0o022)
        else:
            writable = about.st_uid == user or os.access(current, os.W_OK, effective_ids=True)
        if writable:
            return False
        if current == "/":
            return True
        current = os.path.dirname(current)
