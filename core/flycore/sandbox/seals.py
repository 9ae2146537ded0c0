"""Seals: what «the program» means when it is approved, and running exactly that.

Hashing a path and executing the path later loses the race against whoever swaps the file in between. A
program this user can write is therefore run from a private copy whose bytes are hashed as they are copied;
where a copy cannot work, the seal says so and is good for one question only.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
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


def seal_program(
    program: ResolvedProgram, *, in_place: bool, distribution: Distribution | None, packages: Path
) -> Seal:
    """What is sealed of a resolved program; the same program gives the same digest again.

    `in_place` forbids copies (`"seal": "in-place"`); `packages` is the folder that packages are installed in.
    Raises OSError, with the file's name, where something cannot be read, and for a package that holds what
    cannot be copied.
    """
    if distribution is not None and is_bundled(program, distribution):
        return _bundled(program, distribution)
    package = package_of(program, packages)
    if package and not in_place:
        return _copied(program, SealKind.PACKAGE, package)
    if not package and all(map(_holds_still, filter(None, (program.path, program.interpreter)))):
        return _system(program)
    if _is_alone(program.path) and not in_place:
        return _copied(program, SealKind.FILE, os.path.dirname(program.path))
    return Seal(
        kind=SealKind.FILE,
        digest=_digest(program, SealKind.FILE, file_digest(program.path)[1]),
        program=program.path,
        note=NOT_SEALED,
        leasable=False,
    )


def package_of(program: ResolvedProgram, packages: Path) -> str:
    """The real folder of the package the program belongs to; empty where it belongs to none.

    Raises Unsealable for a command that names a package and leads, by a link, somewhere else.
    """
    folder = os.path.realpath(packages)
    declared = os.path.normpath(program.declared).split("/")
    if program.base is Anchor.APP and declared[:2] == PACKAGES and len(declared) > PACKAGE_DEPTH:
        root = os.path.realpath(os.path.join(folder, declared[2]))
        if _beneath(program.path, root):
            return root
        raise Unsealable(errno.EXDEV, "leads out of its package", program.path)
    if not _beneath(program.path, folder):
        return ""
    name, _, inside = program.path[len(folder) + 1 :].partition("/")
    return os.path.join(folder, name) if inside else ""


def materialise(program: ResolvedProgram, seal: Seal, store: Path) -> ResolvedProgram:
    """The program to run: `argv` and all paths lead into the copies of the content store at `store`, which
    are made where they are not there. What is sealed without a copy is looked at once more.

    Raises SealBroken when it, or its interpreter, is not what was sealed.
    """
    if not seal.copies:
        if seal.kind in (SealKind.FILE, SealKind.SYSTEM):
            _look_again(program, seal)
        return program
    held = [(root, str(hold(store, content, root))) for root, content in seal.copies]
    if _sealed_digest(program, seal) != seal.digest:
        raise SealBroken(None, "is not what was sealed", program.interpreter or program.path)
    path = _moved(program.path, held)
    line = program.interpreter_argv
    if line:
        line = (_interpreter_in(line[0], program.interpreter, held), *line[1:])
    return msgspec.structs.replace(
        program,
        path=path,
        argv=(*line, path, *_arguments(program)),
        interpreter=_moved(program.interpreter, held),
        interpreter_argv=line,
    )


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
        digest=_digest(program, SealKind.SYSTEM, (*about, content)),
        program=program.path,
        note=NOT_SEALED if runs_others else "",
        leasable=not runs_others,
    )


_Facts = tuple[int | str, ...]


def _digest(program: ResolvedProgram, kind: SealKind, content: str | _Facts) -> str:
    interpreter: _Facts = ()
    if program.interpreter:
        about, sha = file_digest(program.interpreter)
        interpreter = (program.interpreter, *about, sha, *program.interpreter_argv)
    return _digest_of(kind, program.path, content, interpreter)


@lru_cache(maxsize=1_024)
def _digest_of(kind: SealKind, path: str, content: str | _Facts, interpreter: _Facts) -> str:
    return digest({"kind": kind, "program": path, "content": content, "interpreter": interpreter})


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
