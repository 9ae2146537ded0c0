"""Finds the interpreter of a Python function, and the program by which flytui calls the function."""

from __future__ import annotations

import os
from pathlib import Path

import flycore
from flycore.model.enums import PathState, ReasonCode
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import SidecarEntry
from flycore.model.tool_exec import PythonExec
from flysafe.beneath import OutsideAnchor, open_anchor, open_beneath, real_path_of

PROGRAM = os.path.join(os.path.dirname(flycore.__file__), "runners", "python_program", "call_function.py")
"""The program that imports the module and calls the function. It lies alone in its folder, of which a seal
may make a copy."""
ISOLATED = "-I"
"""Python's switch that leaves out the working folder, PYTHON* variables and the user's own packages."""
_NAMES = ("python", "python3")


def resolve_function(
    entry: SidecarEntry, function: PythonExec, folder: Path, path_env: str, interpreter_dir: Path
) -> ResolvedProgram:
    """Return the program that calls the function, with its interpreter. `folder` is where the path of a
    virtual environment starts. Raises nothing."""
    if function.venv:
        called, why = _in_environment(folder, function.venv)
    else:
        called, why = _on_path(path_env, interpreter_dir)
    if why is not None:
        return _unresolved(entry, function, *why)
    line = (called, ISOLATED)
    return ResolvedProgram(
        state=PathState.RESOLVED,
        mode="relative" if function.venv else "path",
        base=entry.command_anchor,
        declared=entry.command,
        path=os.path.realpath(PROGRAM),
        argv=(*line, os.path.realpath(PROGRAM), function.module, function.function),
        # The link in a virtual environment is how Python finds it; the file that it leads to is sealed, too.
        interpreter=os.path.realpath(called),
        interpreter_argv=line,
        portable=True,
        root_safe=True,
    )


_Why = tuple[PathState, ReasonCode, str, str]


def _in_environment(folder: Path, venv: str) -> tuple[str, _Why | None]:
    """Return the path of the environment's interpreter, or why there is none."""
    try:
        anchor = open_anchor(folder)
    except OSError as error:
        said = f"the folder that {venv} starts from cannot be opened: {error.strerror}"
        return "", (PathState.UNRESOLVED, ReasonCode.INTERPRETER_MISSING, said, "create the folder")
    try:
        programs = open_beneath(anchor, f"{venv}/bin", os.O_RDONLY | os.O_DIRECTORY, links=True)
    except OutsideAnchor:
        said, remedy = f"{venv} leads out of the project", "name an environment below the app root"
        return "", (PathState.OUTSIDE_ROOT_DENIED, ReasonCode.OUTSIDE_ROOT_DENIED, said, remedy)
    except OSError:
        return "", _no_interpreter(venv)
    finally:
        os.close(anchor)
    try:
        found = real_path_of(programs)
    finally:
        os.close(programs)
    candidates = (os.path.join(found, name) for name in _NAMES)
    called = next(filter(_is_interpreter, candidates), "")
    return (called, None) if called else ("", _no_interpreter(venv))


def _is_interpreter(path: str) -> bool:
    """Return whether the file is a program that can be run, and no script, which could start any other."""
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(2) != b"#!"
    except OSError:
        return False


def _no_interpreter(venv: str) -> _Why:
    said = f"{venv} holds no bin/python that can be run"
    remedy = f"run python3 -m venv {venv}, and install what the function imports"
    return PathState.UNRESOLVED, ReasonCode.INTERPRETER_MISSING, said, remedy


def _on_path(path_env: str, interpreter_dir: Path) -> tuple[str, _Why | None]:
    # flytui's own interpreter comes last: its packages are no part of what the function was written for.
    for folder in (*path_env.split(os.pathsep), str(interpreter_dir)):
        path = os.path.join(folder, "python3")
        if os.path.isabs(folder) and _is_interpreter(path):
            return path, None
    said = "python3 is not on PATH"
    remedy = "install python3, or name a virtual environment in exec.python.venv"
    return "", (PathState.UNRESOLVED, ReasonCode.INTERPRETER_MISSING, said, remedy)


def _unresolved(
    entry: SidecarEntry, function: PythonExec, state: PathState, reason: ReasonCode, message: str, remedy: str
) -> ResolvedProgram:
    return ResolvedProgram(
        state=state,
        mode="relative" if function.venv else "path",
        base=entry.command_anchor,
        declared=entry.command,
        reason=reason,
        message=message,
        remedy=remedy,
    )


def is_function(entry: SidecarEntry, command: str) -> PythonExec | None:
    """Return the function that the entry calls, where `command` is the entry's own; else None."""
    return entry.exec if isinstance(entry.exec, PythonExec) and command == entry.command else None
