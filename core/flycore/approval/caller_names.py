"""What a person calls a program: an agent's own name, or the package or file name of a script.

The names are read from what a process shows, which it may have forged. They are for people only: leases,
rules and quotas go by `Caller.key`.
"""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import msgspec

from flycore.model.base import Value

MOST_CHARACTERS = 80
"""Characters of a name; a longer file name is cut."""
_INTERPRETER = re.compile(r"(?:python|pypy|node|nodejs|bun|deno|ruby|perl|php)[0-9.]*t?")
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*t?")
_RUN_WORDS = frozenset({"run", "x", "exec"})
"""Words of `bun` and `deno` before the script."""
_WITH_VALUE = frozenset({"-X", "-W", "--check-hash-based-pycs", "-r", "--require", "--import", "--loader"})
"""Options whose value is the next argument and is not the script."""
_CODE = ("-c", "-e", "-p", "--eval", "--print")
"""Options after which the program is given as text."""
_ENTRY_NAMES = frozenset({"__main__", "main", "index", "cli", "bin", "start", "run", "app", "server"})
"""File names that say nothing: the folder above them names the program."""


class KnownAgent(Value, frozen=True, kw_only=True):
    """An agent or editor, and how its processes are recognised."""

    name: str
    programs: tuple[str, ...] = ()
    """Names of its executable files."""
    scripts: tuple[str, ...] = ()
    """Names of its package, where an interpreter runs it."""
    paths: tuple[str, ...] = ()
    """Patterns of the paths of its executable, where the file's own name says nothing."""
    seen: str
    """What was looked at to write this down."""


@cache
def known_agents() -> tuple[KnownAgent, ...]:
    """Return the agents that are recognised, from `data/agents.json`."""
    raw = Path(__file__).with_name("data").joinpath("agents.json").read_bytes()
    return msgspec.json.decode(raw, type=tuple[KnownAgent, ...])


def name_of(executable: str, arguments: tuple[str, ...]) -> str:
    """Return the name of a process. `executable` is its path, or its own name where the path is not known.

    Empty for an interpreter that runs no script file.
    """
    program = os.path.basename(executable)
    for agent in known_agents():
        if program in agent.programs or any(fnmatchcase(executable, path) for path in agent.paths):
            return agent.name
    if not _INTERPRETER.fullmatch(program):
        return program[:MOST_CHARACTERS]
    script = script_name(program, arguments)
    named = (agent.name for agent in known_agents() if script and script in agent.scripts)
    return next(named, script)[:MOST_CHARACTERS]


def script_name(interpreter: str, arguments: tuple[str, ...]) -> str:
    """Return the package or file name of the script that an interpreter of this name runs; empty where it
    runs text, or waits for input."""
    rest = iter(arguments[1:])
    for argument in rest:
        if _PYTHON.fullmatch(interpreter) and argument.startswith("-m"):
            return (argument[2:] or next(rest, "")).split(".")[0]
        if argument in _WITH_VALUE:
            next(rest, None)
        elif argument.startswith(_CODE) or argument == "-":
            return ""
        elif not argument.startswith("-") and argument not in _RUN_WORDS:
            return _package_or_file(argument)
    return ""


def _package_or_file(script: str) -> str:
    folders = script.replace("\\", "/").split("/")
    if "node_modules" in folders:
        at = len(folders) - folders[::-1].index("node_modules")
        inside = folders[at:]
        scoped = len(inside) > 1 and inside[0].startswith("@")
        # `.bin` holds links to programs, so the link has the name.
        return inside[-1] if inside[0] == ".bin" else "/".join(inside[: 2 if scoped else 1])
    stem = os.path.splitext(folders[-1])[0]
    if stem in _ENTRY_NAMES and len(folders) > 1 and folders[-2] not in ("", ".", ".."):
        return f"{folders[-2]}/{folders[-1]}"
    return folders[-1]
