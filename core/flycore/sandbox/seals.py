"""Seals: the digest of the program that a person approves, and the guarantee that exactly that program
runs."""

# A digest of a path that is executed later loses the race against a program that replaces the file in
# between. So a program that this user can change runs from a copy in the content store, named by its
# content. Where a copy cannot work, the seal says so, and an approval of it holds for one call only.

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

import msgspec

from flycore.model.enums import SealKind
from flycore.model.json import digest
from flycore.model.program import ResolvedProgram, Seal
from flycore.model.sidecar import SidecarEntry
from flycore.sandbox.content_store import SealBrokenError, store_copy
from flycore.sandbox.digests import (
    file_digest,
    is_single_file,
    lies_beneath,
    package_of,
    path_in_copy,
    tree_digest,
)
from flycore.sandbox.distribution import SIDECARS, Distribution, find_distribution

__all__ = [
    "Distribution",
    "SealBrokenError",
    "find_distribution",
    "is_bundled",
    "materialise",
    "seal_program",
]


_FETCHERS = re.compile(r"(npx|npm|pnpm|pnpx|yarn|bunx|uvx|uv|pipx|docker|podman|nix|nix-shell|nix-run)")
FETCHER_NOTE = "fetches and runs what its command line names: only that line is sealed, not what it fetches"
ADDRESS_NOTE = "only the address is sealed: the server there can change without notice"


def is_fetcher(command: str) -> bool:
    """Whether the program is known to fetch the code that it runs."""
    return _FETCHERS.fullmatch(os.path.basename(command)) is not None


def seal_address(entry: SidecarEntry) -> Seal:
    """The seal of an MCP server over HTTP: its address and its headers."""
    return Seal(
        kind=SealKind.NAME, digest=digest([entry.url, entry.headers]), program=entry.url, note=ADDRESS_NOTE
    )


def seal_by_name(entry: SidecarEntry, program: ResolvedProgram, seal: Seal) -> Seal:
    """The seal of an MCP server's program; of the kind `NAME` where the program fetches the code that it
    runs."""
    if not is_fetcher(entry.command) and not is_fetcher(program.path):
        return seal
    return msgspec.structs.replace(seal, kind=SealKind.NAME, note=FETCHER_NOTE)


NOT_SEALED = "may load other files, not sealed"
_INTERPRETERS = re.compile(
    r"(python|pypy|node|deno|bun|ruby|perl|php|lua|Rscript|java|osascript|pwsh|env|busybox|(ba|da|z|k|a|fi)?sh"
    r"|npx|npm|uvx?|pipx|make)[\d.]*"
)
_Facts = tuple[int | str, ...]


def seal_program(
    program: ResolvedProgram, *, in_place: bool, distribution: Distribution | None, packages: Path
) -> Seal:
    """The seal of a resolved program; the same program gives the same digest again.

    `in_place` forbids copies (`"seal": "in-place"`); `packages` is the folder that packages are installed in.
    Raises OSError, with the file's name, where a file cannot be read, and UnsealableError for a package that
    cannot be copied.
    """
    if distribution is not None and is_bundled(program, distribution):
        return _bundled(program, distribution)
    still = all(map(_is_unchanging, filter(None, (program.path, program.interpreter))))
    if in_place and (not still or lies_beneath(program.path, os.path.realpath(packages))):
        return _in_place(program, NOT_SEALED)
    package = "" if in_place else package_of(program, packages)
    if package:
        return _copied(program, SealKind.PACKAGE, package)
    if still:
        return _system(program)
    if not in_place and is_single_file(program.path):
        return _copied(program, SealKind.FILE, os.path.dirname(program.path))
    return _in_place(program, NOT_SEALED)


def materialise(program: ResolvedProgram, seal: Seal, store: Path) -> ResolvedProgram:
    """The program to run, with `argv` and all paths leading into its copies in the content store at `store`,
    which are made where they are missing.

    Raises SealBrokenError where the program or its interpreter is not what was sealed.
    """
    held = [(root, str(store_copy(store, content, root))) for root, content in seal.copies]
    # A program without a copy is read once more, as late as possible: a change between this and its start
    # is not seen, and that is why its approval holds for one call.
    try:
        now = _digest_now(program, seal)
    except OSError as fault:
        raise SealBrokenError(
            fault.errno, fault.strerror or str(fault), fault.filename or program.path
        ) from fault
    if now != seal.digest:
        raise SealBrokenError(None, "is not what was sealed", program.path)
    return _program_in_copy(program, held) if held else program


def is_bundled(program: ResolvedProgram, distribution: Distribution) -> bool:
    """Whether the program is the console script of this distribution, and its argument one of our
    sidecars."""
    arguments = _arguments(program)
    return program.path == distribution.script and bool(arguments) and arguments[0] in SIDECARS


def _bundled(program: ResolvedProgram, distribution: Distribution) -> Seal:
    try:
        files = distribution.digest()
    except OSError as fault:
        return _in_place(program, f"flytui's own program, but {fault.filename} {fault.strerror}: not sealed")
    return Seal(
        kind=SealKind.BUNDLED,
        digest=_digest(program, SealKind.BUNDLED, files),
        program=program.path,
        note="editable: runs from its source folder" if distribution.editable else "",
        editable=distribution.editable,
    )


def _copied(program: ResolvedProgram, kind: SealKind, root: str) -> Seal:
    """A seal over the folder `root`, and over the folder of an interpreter that can be changed and copied."""
    roots = [root]
    interpreter = program.interpreter
    outside = bool(interpreter) and not lies_beneath(interpreter, root)
    if outside and not _is_unchanging(interpreter) and is_single_file(interpreter):
        roots.append(os.path.dirname(interpreter))
    copies = tuple((folder, tree_digest(folder)) for folder in roots)
    return Seal(
        kind=kind,
        digest=_copied_digest(program, kind, copies),
        program=program.path,
        copy=True,
        copies=copies,
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


def _in_place(program: ResolvedProgram, note: str) -> Seal:
    return Seal(
        kind=SealKind.FILE,
        digest=_digest(program, SealKind.FILE, file_digest(program.path)[1]),
        program=program.path,
        note=note,
        leasable=False,
    )


def _program_in_copy(program: ResolvedProgram, held: list[tuple[str, str]]) -> ResolvedProgram:
    """The program with every path that lies below a copied folder replaced by the path in the copy."""
    path = path_in_copy(program.path, held)
    line = program.interpreter_argv
    if line:
        folder, name = os.path.split(line[0])
        named = os.path.join(os.path.realpath(folder), name)
        copied = next(
            (here for it in (named, program.interpreter) if (here := path_in_copy(it, held)) != it), line[0]
        )
        line = (copied, *line[1:])
    return msgspec.structs.replace(
        program,
        path=path,
        argv=(*line, path, *_arguments(program)),
        interpreter=path_in_copy(program.interpreter, held),
        interpreter_argv=line,
    )


def _digest_now(program: ResolvedProgram, seal: Seal) -> str:
    """The digest of the seal as the files are now. A copied folder counts by the digest that its copy has."""
    # The distribution's own files were read a moment ago, when the call was compared with its approval.
    if seal.copies:
        return _copied_digest(program, seal.kind, seal.copies)
    if seal.kind is SealKind.SYSTEM:
        return _system(program).digest
    if seal.kind is SealKind.FILE:
        return _in_place(program, seal.note).digest
    return seal.digest


def _copied_digest(program: ResolvedProgram, kind: SealKind, copies: tuple[tuple[str, str], ...]) -> str:
    copied = any(lies_beneath(program.interpreter, root) for root, _ in copies)
    interpreter = ("copied", *program.interpreter_argv) if copied else _interpreter(program)
    return _digest_of(kind, program.path, tuple(part for copy in copies for part in copy), interpreter)


def _digest(program: ResolvedProgram, kind: SealKind, content: str | _Facts) -> str:
    return _digest_of(kind, program.path, content, _interpreter(program))


def _interpreter(program: ResolvedProgram) -> _Facts:
    if not program.interpreter:
        return ()
    about, sha = file_digest(program.interpreter)
    return (program.interpreter, *about, sha, *program.interpreter_argv)


@lru_cache(maxsize=1_024)
def _digest_of(kind: SealKind, path: str, content: str | _Facts, interpreter: _Facts) -> str:
    return digest({"kind": kind, "program": path, "content": content, "interpreter": interpreter})


def _arguments(program: ResolvedProgram) -> tuple[str, ...]:
    """The arguments after the program in its argv, whether or not an interpreter comes before it."""
    before = len(program.interpreter_argv)
    started_by = before if before and program.argv[:before] == program.interpreter_argv else 0
    return program.argv[started_by + 1 :]


def _is_unchanging(path: str) -> bool:
    """Whether this user can change neither the file nor any folder on the way to it."""
    # Root can change everything. For root a file counts that root owns and nobody else may write.
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
