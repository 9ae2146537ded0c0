"""Programs that the kernel's own tools start: where a command leads, and the seal of its file.

A call of such a tool is a command of the person's project, and what it loads there changes with the work. The
seal holds the file that is started, with its interpreter, and the card says that it holds no more.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from flycore.model.enums import Anchor, Level, PathState, ReasonCode, SealKind
from flycore.model.json import digest
from flycore.model.program import ResolvedProgram, Seal
from flycore.registry.resolve import find_on_path, read_interpreter
from flycore.sandbox.digests import file_digest
from flycore.sandbox.environment import SYSTEM_PATH
from flycore.sandbox.observed_files import is_unchanging
from flycore.sandbox.seal_parts import AT_LEVEL

NOT_SEALED = "what it loads from the project is not sealed: it is what the project has when it runs"
CHANGEABLE = "your own programs can change its file, and the seal holds no copy"
_HEAD_BYTES = 256


def command_path(environ: Mapping[str, str]) -> str:
    """Return the search path of commands: the absolute folders of the kernel's own PATH, then the
    system's."""
    own = [folder for folder in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(folder)]
    return os.pathsep.join(dict.fromkeys((*own, *SYSTEM_PATH)))


def find_command(words: tuple[str, ...], cwd: str, path: str) -> ResolvedProgram:
    """Return the program that a command leads to: a bare name on the search path, another path from `cwd`.

    The program is called as it was named, because some look at their own name: the python of a virtual
    environment finds its packages by it.
    """
    name = words[0]
    if "\0" in "".join(words):
        return _missing(name, "a word of the command holds a NUL character", "leave it out")
    in_folder = os.path.normpath(os.path.join(cwd, name))
    called = in_folder if "/" in name else find_on_path(name, path) or ""
    real = os.path.realpath(called) if called else ""
    if not real or not os.path.isfile(real):
        return _missing(name, f"there is no program {name}", "install it, or name another")
    if not os.access(real, os.X_OK):
        return _missing(
            name, f"{name} may not be executed", f"run chmod +x {name}", ReasonCode.NOT_EXECUTABLE
        )
    line: tuple[str, ...] = ()
    try:
        with open(real, "rb") as file:
            script = read_interpreter(file.read(_HEAD_BYTES), path)
    except OSError:
        script = None  # a program that may be executed and not read
    if script is not None:
        if script.missing:
            why = f"the #! line of {name} names {script.missing}, which is not there"
            return _missing(name, why, "install it", ReasonCode.INTERPRETER_MISSING)
        line = script.argv
    return ResolvedProgram(
        state=PathState.RESOLVED,
        mode="relative" if "/" in name else "path",
        base=Anchor.APP,
        declared=name,
        path=real,
        argv=(called, *words[1:]),
        interpreter=os.path.realpath(line[0]) if line else "",
        interpreter_argv=line,
        portable=True,
        root_safe=True,
    )


def _missing(
    name: str, message: str, remedy: str, reason: ReasonCode = ReasonCode.COMMAND_NOT_FOUND
) -> ResolvedProgram:
    return ResolvedProgram(
        state=PathState.UNRESOLVED,
        mode="relative" if "/" in name else "path",
        base=Anchor.APP,
        declared=name,
        reason=reason,
        message=message,
        remedy=remedy,
        wanted=name,
    )


def seal_command(program: ResolvedProgram, level: Level, *, fixed: bool) -> Seal:
    """Return the seal of a program that was found, at that level. With `fixed` the whole command line is
    flytui's own, which makes it load nothing of the project.

    Raises OSError where its file cannot be read.
    """
    files = [path for path in (program.path, program.interpreter) if path]
    # The identity is part of it: the same bytes in another file are another program to the system.
    digests = [[path, list(about), content] for path in files for about, content in [file_digest(path)]]
    system = all(map(is_unchanging, files))
    reasons = ("" if system else CHANGEABLE, "" if fixed else AT_LEVEL.get(level, ""))
    return Seal(
        kind=SealKind.SYSTEM if system else SealKind.FILE,
        digest=digest([[program.argv[0]], digests]),
        program=program.path,
        note="" if fixed else NOT_SEALED,
        partial=tuple(filter(None, reasons)),
    )


def changed_command(program: ResolvedProgram, seal: Seal, *, fixed: bool) -> str:
    """Return the path of the program where it is not what was sealed any more; empty where it is."""
    try:
        # The level is no part of the digest.
        now = seal_command(program, Level.ENFORCED, fixed=fixed)
        return "" if now.digest == seal.digest else program.path
    except OSError:
        return program.path


OWN_PROGRAM = ResolvedProgram(
    state=PathState.RESOLVED,
    mode="path",
    base=Anchor.APP,
    declared="flytui itself",
    path="flytui itself",
    portable=True,
    root_safe=True,
)
"""What stands for the program of a tool that the kernel itself carries out."""


def own_seal(tool: str, definition: str, note: str = "") -> Seal:
    """Return the seal of a tool that the kernel itself carries out. `definition` is the digest of its
    definition, so that an approval ends with it."""
    return Seal(kind=SealKind.BUNDLED, digest=digest([tool, definition]), program=OWN_PROGRAM.path, note=note)
