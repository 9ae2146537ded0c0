"""The `#!` line of a script: which interpreter it asks for, and whether that exists here."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass

MAX_LINE = 256
"""Bytes the operating system reads of a `#!` line."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """`argv` as the line names it, `env NAME` followed; empty where `missing` says what is not there."""

    argv: tuple[str, ...] = ()
    missing: str = ""


def read_interpreter(head: bytes, path: str) -> Interpreter | None:
    """The interpreter of a file that begins with `head`; None for a file without a `#!` line.

    `path` is a search path for the name that `/usr/bin/env` is given.
    """
    if not head.startswith(b"#!"):
        return None
    line = head[2 : MAX_LINE - 1].split(b"\n", 1)[0].strip(b" \t")
    if line.endswith(b"\r"):
        return Interpreter(
            missing=f"{_printable_line(line[:-1])} with a carriage return (save the file with \\n)"
        )
    name, _, argument = line.partition(b" ") if b"\t" not in line else line.partition(b"\t")
    command, argument_text = os.fsdecode(name), os.fsdecode(argument.strip(b" \t"))
    if not command:
        return Interpreter(missing="an interpreter (the #! line names none)")
    if os.path.basename(command) == "env" and argument_text:
        return _resolve_env(argument_text, path)
    if not os.path.isabs(command) or not _is_executable(command):
        return Interpreter(missing=command)
    return Interpreter(argv=(command, argument_text) if argument_text else (command,))


def _resolve_env(argument: str, path: str) -> Interpreter:
    """`env NAME` and `env -S NAME ARG…`; variables set on the line are kept by env itself, not by us."""
    words = [argument]
    if argument.startswith(("-S", "--split-string=")):
        try:
            words = shlex.split(argument.removeprefix("--split-string=").removeprefix("-S"))
        except ValueError:
            return Interpreter(missing=f"env {argument}")
    if not words or words[0].startswith("-") or "=" in words[0]:
        return Interpreter(missing=f"env {argument} (only env NAME and env -S NAME ARG are followed)")
    found = words[0] if os.path.isabs(words[0]) else find_on_path(words[0], path)
    if found is None or not _is_executable(found):
        return Interpreter(missing=words[0])
    return Interpreter(argv=(found, *words[1:]))


def find_on_path(name: str, path: str) -> str | None:
    """The first executable of that name in the absolute folders of `path`."""
    if "/" in name or name in ("", ".", ".."):
        return None
    for folder in path.split(os.pathsep):
        candidate = os.path.join(folder, name)
        if os.path.isabs(folder) and _is_executable(candidate):
            return candidate
    return None


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _printable_line(name: bytes) -> str:
    return name.decode("utf-8", "replace")
