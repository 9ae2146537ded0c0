"""The program that a typed command names, with its arguments and its child's environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from flycore.model.diagnostics import Position
from flycore.model.enums import Anchor, PathState, Source
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import SidecarEntry
from flycore.registry.resolve import MAX_LINE, find_on_path, read_interpreter
from flycore.sandbox.environment import child_environment

ENTRY = SidecarEntry(id="checked", source=Source.USER, position=Position(file="", line=1, column=1))
"""An entry without declarations: the program gets what every sidecar gets."""


def find_program(
    command: str, arguments: Sequence[str], *, cwd: str, interpreter_dir: Path, path_env: str
) -> ResolvedProgram | None:
    """Find the program as an entry with this command would start it; None if there is none.

    A path is relative to `cwd`. A bare name is searched beside the running interpreter, then on PATH.
    """
    if "/" in command:
        called = os.path.join(cwd, command)
    else:
        called = find_on_path(command, os.pathsep.join((str(interpreter_dir), path_env))) or ""
    if not os.path.isfile(called):
        return None
    interpreter = read_interpreter(_head(called), os.pathsep.join((os.path.dirname(called), path_env)))
    line = interpreter.argv if interpreter is not None else ()
    return ResolvedProgram(
        state=PathState.RESOLVED,
        mode="relative" if "/" in command else "path",
        base=Anchor.APP,
        declared=command,
        path=os.path.realpath(called),
        argv=(called, *arguments),
        interpreter=os.path.realpath(line[0]) if line else "",
        interpreter_argv=line,
    )


def environment_of(program: ResolvedProgram, environ: Mapping[str, str], call_id: str) -> dict[str, str]:
    """Return the environment that the program's process gets."""
    return child_environment(ENTRY, program, environ=environ, secrets={}, call_id=call_id)


def resolve_arguments(argv: tuple[str, ...], cwd: str) -> tuple[str, ...]:
    """Return the command for another working directory: arguments that name a file below `cwd` become
    absolute paths."""
    return (argv[0], *(_absolute_argument(part, cwd) for part in argv[1:]))


def _absolute_argument(part: str, cwd: str) -> str:
    path = os.path.join(cwd, part)
    return path if part and not part.startswith("-") and os.path.lexists(path) else part


def _head(path: str) -> bytes:
    """Read the first bytes of a file; empty if it cannot be read, as starting it reports that better."""
    try:
        with open(path, "rb") as file:
            return file.read(MAX_LINE)
    except OSError:
        return b""
