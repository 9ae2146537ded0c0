"""Help and completions of the command line without the library for command lines, from a file of them.

`docs/make_command_texts.py` writes the file from the commands themselves, and a test compares the two.
Whatever the file does not have is left to the ordinary command line: other widths of a terminal, values of
options, and names of tools and sidecars.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

FILE = os.path.join(os.path.dirname(__file__), "data", "command_texts.json")
NARROW, WIDE = 80, 100
"""Columns for which the file has the help: without a terminal, and the widest that a help becomes."""
_HELP = ("--help", "-h")
_SHELLS = ("bash", "zsh", "fish")
_PLAIN = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
_LONGEST_NAME = 128


def kept_text(words: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Return what the ordinary command line would print; None where the file does not have it."""
    wanted = [name for name in environ if name.startswith("_FLYTUI")]
    if wanted:
        return _completions(environ) if wanted == ["_FLYTUI_COMPLETE"] else None
    if not words or words[-1] not in _HELP or "COLUMNS" in environ:
        return None
    command = _commands().get(" ".join(words[:-1]))
    text: str | None = None if command is None else command["help"].get(_columns())
    return text


def _commands() -> dict[str, dict[str, Any]]:
    """The commands by their words, each with its help by columns, its subcommands, its options, and whose
    names its argument takes."""
    import json

    with open(FILE, encoding="utf-8") as file:
        commands: dict[str, dict[str, Any]] = json.load(file)
    return commands


def _columns() -> str:
    """The width of the help, in the columns of a terminal."""
    try:
        columns = os.get_terminal_size(sys.__stdout__.fileno()).columns if sys.__stdout__ else 0
    except (OSError, ValueError):
        columns = 0
    return str(min(columns or NARROW, WIDE))


class Completion(NamedTuple):
    """What a shell asks to complete: the command and its words before the cursor, and the begun word."""

    shell: str
    given: tuple[str, ...]
    incomplete: str


def read_completion(environ: Mapping[str, str]) -> Completion | None:
    """What the shell asks for. None for another wish, and for quotes and escapes, which the ordinary way
    reads."""
    shell, _, instruction = environ.get("_FLYTUI_COMPLETE", "").partition("_")
    line, cursor = environ.get("COMP_WORDS", ""), environ.get("COMP_CWORD", "")
    plain = all(" " <= letter <= "~" and letter not in "'\"\\" for letter in line + cursor)
    if not plain or instruction != "complete" or shell not in _SHELLS:
        return None
    words = line.split()
    if shell == "fish":
        incomplete = cursor
        given = words[1:]
        if incomplete and given and given[-1] == incomplete:
            given.pop()
    elif cursor.isdigit():
        at = int(cursor)
        given, incomplete = words[1:at], words[at] if at < len(words) else ""
    else:
        return None
    if "=" in incomplete or " " in incomplete:
        return None
    return Completion(shell, tuple(given), incomplete)


def _completions(environ: Mapping[str, str]) -> str | None:
    """The answer to a shell that completes a subcommand or an option of a command without other words."""
    wish = read_completion(environ)
    command = None if wish is None else _commands().get(" ".join(wish.given))
    if wish is None or command is None:
        return None
    option = wish.incomplete.startswith("-")
    if not option and not command["commands"]:
        return None  # the value of an argument
    found = command["options" if option else "commands"]
    chosen = {name: text for name, text in found.items() if name.startswith(wish.incomplete)}
    return "\n".join(completion_line(wish.shell, name, text) for name, text in chosen.items())


def completable(name: str) -> bool:
    """Whether a shell's completion may offer the name."""
    # The completion scripts of shells split and expand the names that they get. So a name with a character
    # that has a meaning to a shell is never offered.
    return (
        name.isascii()
        and name[:1].isalnum()
        and len(name) <= _LONGEST_NAME
        and all(letter in _PLAIN for letter in name)
    )


def kinds_of_names(wish: Completion) -> list[str]:
    """Whose names the argument of the command takes: `tools`, `sidecars`, both, or neither."""
    command = None if wish.incomplete.startswith("-") else _commands().get(" ".join(wish.given))
    return [] if command is None else list(command["names"])


def completion_line(shell: str, name: str, text: str) -> str:
    """One completion as the script of that shell reads it. A name has no colon, and a text has one line."""
    if shell == "zsh":
        return f"plain\n{name}\n{text or '_'}"
    return f"plain,{name}\t{text}" if text and shell == "fish" else f"plain,{name}"
