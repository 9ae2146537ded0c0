"""Seals: the digest of the program that a person approves, and the guarantee that exactly that program
runs."""

# A digest of a path that is executed later loses the race against a program that replaces the file in
# between. So a program that this user can change runs from a copy in the content store, named by its
# content. Where a copy cannot work, the seal says so, and an approval of it holds for one call only.

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from flycore.model.enums import PathState, SealKind
from flycore.model.json import digest
from flycore.model.program import ResolvedProgram, Seal
from flycore.model.sidecar import SidecarEntry
from flycore.registry.resolve import find_on_path, read_interpreter
from flycore.sandbox.content_store import SealBrokenError, store_copy
from flycore.sandbox.digests import (
    ChangedWhileReadError,
    file_digest,
    is_single_file,
    lies_beneath,
    package_of,
    path_in_copy,
    tree_digest,
)
from flycore.sandbox.distribution import SIDECARS, Distribution, find_distribution
from flycore.sandbox.environment import search_path
from flycore.sandbox.native import loads_from
from flycore.sandbox.observed_files import Notes, is_unchanging, real_path, take_notes
from flycore.sandbox.seal_parts import (
    FoundParts,
    StartConditions,
    add_arguments,
    add_environment,
    add_folders_of,
    add_reach,
    add_working_folder,
    inside_runtime,
    reach_reasons,
    starts_empty,
)
from flycore.sandbox.system_programs import loads_nothing
from flycore.sandbox.wrappers import DEEPEST, Started, is_wrapper, look_through

__all__ = [
    "Distribution",
    "SealBrokenError",
    "StartConditions",
    "changed_part",
    "find_distribution",
    "held_copies",
    "is_bundled",
    "is_kept",
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
    # Nothing is started on this machine, so there is no program that the seal could fail to hold.
    return Seal(
        kind=SealKind.NAME, digest=digest([entry.url, entry.headers]), program=entry.url, note=ADDRESS_NOTE
    )


def seal_by_name(entry: SidecarEntry, program: ResolvedProgram, seal: Seal) -> Seal:
    """The seal of an MCP server's program; of the kind `NAME` where the program fetches the code that it
    runs."""
    if not is_fetcher(entry.command) and not is_fetcher(program.path):
        return seal
    partial = (FETCHER_NOTE, *seal.partial)
    return msgspec.structs.replace(seal, kind=SealKind.NAME, note="", partial=partial)


ATTEMPTS = 5
"""How often a program is sealed anew because one of its files changed while it was read."""
MOST_KEPT = 256
MOST_AT_ONCE = 1_500
"""How many files are looked at on the event loop, which takes some milliseconds."""
ISOLATED = "-I"
"""Python's switch that leaves out the working folder, PYTHON* variables and the user's own packages."""
_Facts = tuple[int | str, ...]


class _Kept(NamedTuple):
    seal: Seal
    notes: Notes


_kept: dict[tuple[object, ...], _Kept] = {}


def seal_program(program: ResolvedProgram, conditions: StartConditions) -> Seal:
    """The seal of a resolved program; the same program gives the same digest again.

    Raises OSError, with the file's name, where a file cannot be read, and UnsealableError for a package that
    cannot be copied.
    """
    key = (program, conditions.key)
    kept = _kept.get(key)
    # Nothing is assumed to be unchanged: each file and folder that the seal was made from is looked at again.
    if kept is not None and kept.notes.settled and kept.notes.hold():
        return kept.seal
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with take_notes() as notes:
                seal = _seal(program, conditions, 0)
            break
        except ChangedWhileReadError:
            # Another call of the same tool may be writing a file. One that never rests cannot be sealed.
            if attempt == ATTEMPTS:
                raise
    if len(_kept) >= MOST_KEPT:
        _kept.clear()
    notes.tidy()
    _kept[key] = _Kept(seal, notes)
    return seal


def is_kept(program: ResolvedProgram, conditions: StartConditions) -> bool:
    """Whether the seal is expected to take a few milliseconds at most, so that it needs no worker thread."""
    kept = _kept.get((program, conditions.key))
    return kept is not None and kept.notes.settled and len(kept.notes.contents) <= MOST_AT_ONCE


def changed_part(program: ResolvedProgram, seal: Seal, conditions: StartConditions) -> str:
    """A file of the seal that runs in place and is not what was sealed any more; empty where there is
    none."""
    # New files do not count: the program that has just been started may have made them.
    kept = _kept.get((program, conditions.key))
    if seal.kind is SealKind.BUNDLED or (seal.copy and not seal.parts):
        return ""
    if kept is None or kept.seal.digest != seal.digest:
        return "" if seal_program(program, conditions).digest == seal.digest else program.path
    return next(filter(lambda path: not _as_noted(path, kept.notes), kept.notes.digests), "")


def _as_noted(path: str, notes: Notes) -> bool:
    try:
        return (notes.settled and notes.has_facts(path)) or file_digest(path)[1] == notes.digests[path]
    except OSError:
        return False


def materialise(
    program: ResolvedProgram,
    seal: Seal,
    store: Path,
    conditions: StartConditions,
    *,
    at_own_path: bool = False,
) -> ResolvedProgram:
    """The program to run, with `argv` and all paths leading into its copies in the content store at `store`,
    which are made where they are missing.

    With `at_own_path` the paths stay those of the program itself, for a sandbox in which `held_copies` are
    seen there. Raises SealBrokenError where the program or anything else of the seal is not what was sealed.
    """
    held = [(root, str(store_copy(store, content, root))) for root, content in seal.copies]
    # What runs without a copy is looked at once more, as late as possible, and again after the start.
    try:
        now = _digest_now(program, seal, conditions)
    except OSError as fault:
        raise SealBrokenError(
            fault.errno, fault.strerror or str(fault), fault.filename or program.path
        ) from fault
    if now != seal.digest:
        raise SealBrokenError(None, "is not what was sealed", program.path)
    if at_own_path:
        held = []
    runs = _program_in_copy(program, held)
    argv = _argv(program, runs, conditions, held, 0)
    return runs if argv == runs.argv else msgspec.structs.replace(runs, argv=argv)


def held_copies(seal: Seal, store: Path) -> tuple[tuple[str, str], ...]:
    """The sealed folders that run from the content store, each with its copy, as `materialise` made them."""
    return tuple((root, str(store / content)) for root, content in seal.copies)


def is_bundled(program: ResolvedProgram, distribution: Distribution) -> bool:
    """Whether the program is the console script of this distribution, and its argument one of our
    sidecars."""
    arguments = _arguments(program)
    return program.path == distribution.script and bool(arguments) and arguments[0] in SIDECARS


def _seal(program: ResolvedProgram, conditions: StartConditions, depth: int) -> Seal:
    """The seal of a program, or of the program that a wrapper starts."""
    started = _looked_through(program, depth)
    if started is not None and not started.why_not:
        inner = _inner(program, started, conditions)
        if isinstance(inner, ResolvedProgram):
            return _through(program, started, inner, conditions, depth)
        started = Started(why_not=inner)
    found = FoundParts()
    if started is not None:
        found.say(started.why_not)
    distribution = conditions.distribution
    if distribution is not None and is_bundled(program, distribution):
        return _bundled(program, distribution, conditions, found)
    still = all(map(is_unchanging, filter(None, (program.path, program.interpreter))))
    packages = real_path(conditions.packages) if conditions.packages else None
    packaged = packages is not None and lies_beneath(program.path, packages)
    if conditions.in_place and (not still or packaged):
        return _in_place(program, conditions, found)
    package = "" if conditions.in_place else package_of(program, Path(conditions.packages or "/nowhere"))
    if package:
        return _copied(program, SealKind.PACKAGE, package, conditions, found)
    if still:
        return _system(program, conditions, found)
    if not conditions.in_place and is_single_file(program.path):
        return _copied(program, SealKind.FILE, os.path.dirname(program.path), conditions, found)
    return _in_place(program, conditions, found)


# Wrappers: the seal is that of the program that they start.


def _looked_through(program: ResolvedProgram, depth: int) -> Started | None:
    """What a wrapper of the system starts; None for any other program."""
    name = os.path.basename(program.path)
    if depth >= DEEPEST or not is_wrapper(name) or program.interpreter or not is_unchanging(program.path):
        return None
    return look_through(name, program.argv)


def _inner(program: ResolvedProgram, started: Started, conditions: StartConditions) -> ResolvedProgram | str:
    """The program that a wrapper starts, or why it cannot be told."""
    name = started.argv[0]
    sets_path = any(variable == "PATH" for variable, _ in (*conditions.env, *started.assigned))
    if "/" in name:
        called = os.path.join(conditions.cwd, name) if conditions.cwd else name
    elif sets_path:
        return f"its environment sets PATH, which decides what {name} is"
    else:
        called = find_on_path(name, search_path(program)) or ""
    real = real_path(called) if called.startswith("/") else None
    if real is None or not os.path.isfile(real):
        return f"starts {name}, which is not there"
    line: tuple[str, ...] = ()
    with open(real, "rb") as file:
        script = read_interpreter(file.read(256), f"{os.path.dirname(called)}:{search_path(program)}")
    if script is not None:
        if script.missing:
            return f"starts {name}, whose interpreter {script.missing} is not there"
        line = script.argv
    return ResolvedProgram(
        state=PathState.RESOLVED,
        mode="relative" if "/" in name else "path",
        base=program.base,
        declared=name,
        # A bare name is kept as it was found, for programs that look at their own name.
        path=real,
        argv=(real if "/" in name else called, *started.argv[1:]),
        interpreter=os.path.realpath(line[0]) if line else "",
        interpreter_argv=line,
        portable=program.portable,
        root_safe=program.root_safe,
    )


def _through(
    program: ResolvedProgram,
    started: Started,
    inner: ResolvedProgram,
    conditions: StartConditions,
    depth: int,
) -> Seal:
    within = msgspec.structs.replace(conditions, env=(*conditions.env, *started.assigned))
    seal = _seal(inner, within, depth + 1)
    about, content = file_digest(program.path)
    words = digest([program.path, list(about), content, list(started.before), seal.digest])
    # A sidecar of flytui's own behind a wrapper is not started the way that flytui starts its own.
    kind = SealKind.SYSTEM if seal.kind is SealKind.BUNDLED else seal.kind
    note = f"started by {os.path.basename(program.path)}"
    return msgspec.structs.replace(
        seal, kind=kind, digest=words, note=f"{note}, {seal.note}" if seal.note else note
    )


def _argv(
    program: ResolvedProgram,
    in_copy: ResolvedProgram,
    conditions: StartConditions,
    held: list[tuple[str, str]],
    depth: int,
) -> tuple[str, ...]:
    """The command line to run, with the copies in place of what they are copies of. `in_copy` is the program
    in its own."""
    started = _looked_through(program, depth)
    if started is not None and not started.why_not:
        inner = _inner(program, started, conditions)
        if isinstance(inner, ResolvedProgram):
            copied = _program_in_copy(inner, held)
            return (*started.before, *_argv(inner, copied, conditions, held, depth + 1))
    distribution = conditions.distribution
    if distribution is not None and is_bundled(program, distribution):
        return _isolated(program)
    return in_copy.argv


def _isolated(program: ResolvedProgram) -> tuple[str, ...]:
    """The command line of a sidecar of flytui's own, whose interpreter looks at no working folder."""
    line = program.interpreter_argv
    if not line or not os.path.basename(program.interpreter).startswith("python"):
        return program.argv
    return (line[0], ISOLATED, *line[1:], program.path, *_arguments(program))


# The kinds of seals.


def _bundled(
    program: ResolvedProgram, distribution: Distribution, conditions: StartConditions, found: FoundParts
) -> Seal:
    try:
        files = distribution.digest()
    except OSError as fault:
        if isinstance(fault, ChangedWhileReadError):
            raise
        found.say(f"flytui's own program, but {fault.filename} {fault.strerror}: not sealed")
        return _in_place(program, conditions, found)
    isolated = _isolated(program) != program.argv
    read = (pair for pair in conditions.env if not (isolated and pair[0].startswith("PYTHON")))
    add_environment(found, read, conditions)
    return _made(
        program,
        SealKind.BUNDLED,
        found,
        digest=_digest(program, SealKind.BUNDLED, files, found),
        note="editable: runs from its source folder" if distribution.editable else "",
        editable=distribution.editable,
    )


def _copied(
    program: ResolvedProgram, kind: SealKind, root: str, conditions: StartConditions, found: FoundParts
) -> Seal:
    """A seal over the folder `root`, and over the folder of an interpreter that can be changed and copied."""
    roots = [root]
    interpreter = program.interpreter
    outside = bool(interpreter) and not lies_beneath(interpreter, root)
    if outside and not is_unchanging(interpreter):
        if is_single_file(interpreter):
            roots.append(os.path.dirname(interpreter))
        else:
            found.say(f"its interpreter {interpreter} runs in place")
    copies = tuple((folder, tree_digest(folder)) for folder in roots)
    _add_arguments(program, conditions, found)
    add_environment(found, conditions.env, conditions)
    why = inside_runtime(program, conditions)
    why = why or ("" if interpreter else loads_from(program.path, root))
    if why:
        found.say(why)
    surroundings = _add_surroundings(conditions, found, roots)
    return _made(
        program,
        kind,
        found,
        digest=_copied_digest(program, kind, copies, found),
        copy=True,
        copies=copies,
        surroundings=surroundings,
    )


def _system(program: ResolvedProgram, conditions: StartConditions, found: FoundParts) -> Seal:
    about, content = file_digest(program.path)
    _add_arguments(program, conditions, found)
    add_environment(found, conditions.env, conditions)
    surroundings = ""
    if program.interpreter or not loads_nothing(program.path):
        found.say("a system program that may load files which its arguments or its working folder name")
        surroundings = _add_surroundings(conditions, found)
    return _made(
        program,
        SealKind.SYSTEM,
        found,
        digest=_digest(program, SealKind.SYSTEM, (*about, content), found),
        surroundings=surroundings,
    )


def _in_place(program: ResolvedProgram, conditions: StartConditions, found: FoundParts) -> Seal:
    _add_arguments(program, conditions, found)
    add_environment(found, conditions.env, conditions)
    found.say("runs in place, where it may load other files")
    add_folders_of(found, (program.path,), conditions)
    kind = SealKind.FOLDER if (os.path.dirname(program.path), "folder") in found.parts else SealKind.FILE
    why = inside_runtime(program, conditions)
    if why:
        found.say(why)
    surroundings = _add_surroundings(conditions, found)
    content = file_digest(program.path)[1]
    return _made(
        program,
        kind,
        found,
        digest=_digest(program, kind, content, found),
        surroundings=surroundings,
    )


def _add_arguments(program: ResolvedProgram, conditions: StartConditions, found: FoundParts) -> None:
    scripts = add_arguments(found, _arguments(program), conditions, "argument")
    named = [part.path for part in found.parts.values() if part.why == "argument"]
    if named:
        found.say(f"is given {', '.join(os.path.basename(path) for path in named[:3])} by argument")
    add_folders_of(found, scripts, conditions)


def _add_surroundings(conditions: StartConditions, found: FoundParts, copied: Iterable[str] = ()) -> str:
    """Seal what is known to run from the working folder, and say what else the program can read. Returns the
    digest of both, for leases."""
    watched = "" if starts_empty(conditions) else add_working_folder(found, conditions)
    return add_reach(found, conditions, copied, watched)


def _made(program: ResolvedProgram, kind: SealKind, found: FoundParts, **more: Any) -> Seal:
    return Seal(
        kind=kind,
        program=program.path,
        partial=(*found.partial, *found.reach),
        parts=tuple(part for _, part in sorted(found.parts.items())),
        leasable=found.leasable,
        **more,
    )


def _program_in_copy(program: ResolvedProgram, held: list[tuple[str, str]]) -> ResolvedProgram:
    """The program with every path that lies below a copied folder replaced by the path in the copy."""
    if not held:
        return program
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


def _digest_now(program: ResolvedProgram, seal: Seal, conditions: StartConditions) -> str:
    """The digest of the seal as the files are now. A copied folder counts by the digest that its copy has."""
    # The distribution's own files were read a moment ago, when the call was compared with its approval.
    if seal.kind is SealKind.BUNDLED:
        return seal.digest
    if seal.copies and not seal.parts and not _looked_through(program, 0):
        outside = reach_reasons(conditions)
        found = FoundParts(partial={reason: None for reason in seal.partial if reason not in outside})
        return _copied_digest(program, seal.kind, seal.copies, found)
    return seal_program(program, conditions).digest


def _copied_digest(
    program: ResolvedProgram, kind: SealKind, copies: tuple[tuple[str, str], ...], found: FoundParts
) -> str:
    copied = any(lies_beneath(program.interpreter, root) for root, _ in copies)
    interpreter = ("copied", *program.interpreter_argv) if copied else _interpreter(program)
    content = tuple(part for copy in copies for part in copy)
    return _digest_of(kind, program.path, content, interpreter, found.digest(), tuple(found.partial))


def _digest(program: ResolvedProgram, kind: SealKind, content: str | _Facts, found: FoundParts) -> str:
    return _digest_of(
        kind, program.path, content, _interpreter(program), found.digest(), tuple(found.partial)
    )


def _interpreter(program: ResolvedProgram) -> _Facts:
    if not program.interpreter:
        return ()
    about, sha = file_digest(program.interpreter)
    return (program.interpreter, *about, sha, *program.interpreter_argv)


@lru_cache(maxsize=1_024)
def _digest_of(
    kind: SealKind,
    path: str,
    content: str | _Facts,
    interpreter: _Facts,
    parts: str,
    partial: tuple[str, ...],
) -> str:
    return digest(
        {
            "kind": kind,
            "program": path,
            "content": content,
            "interpreter": interpreter,
            "parts": parts,
            "partial": partial,
        }
    )


def _arguments(program: ResolvedProgram) -> tuple[str, ...]:
    """The arguments after the program in its argv, whether or not an interpreter comes before it."""
    before = len(program.interpreter_argv)
    started_by = before if before and program.argv[:before] == program.interpreter_argv else 0
    return program.argv[started_by + 1 :]
