"""Help and completions of the command line without the library for command lines, from a file of them.

`docs/make_command_texts.py` writes the file from the commands themselves, and a test compares the two.
Whatever the file does not have is left to the ordinary command line: other widths of a terminal, values of
options, and names of tools.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

FILE = os.path.join(os.path.dirname(__file__), "data", "command_texts.json")
NARROW, WIDE = 80, 100
"""Columns for which the file has the help: without a terminal, and the widest that a help becomes."""
_HELP = ("--help", "-h")
_SHELLS = ("bash", "zsh", "fish")


def kept_text(words: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Return what the ordinary command line would print; None where the file does not have it."""
    wanted = [name for name in environ if name.startswith("_FLYTUI")]
    if wanted:
        return _completions(environ) if wanted == ["_FLYTUI_COMPLETE"] else None
    if not words or words[-1] not in _HELP or "COLUMNS" in environ:
        return None
    command = _commands().get(" ".join(words[:-1]))
    return None if command is None else command["help"].get(_columns())


def _commands() -> dict[str, dict[str, dict[str, str]]]:
    """The commands by their words, each with its help by columns, its subcommands and its options."""
    import json

    with open(FILE, encoding="utf-8") as file:
        commands: dict[str, dict[str, dict[str, str]]] = json.load(file)
    return commands


def _columns() -> str:
    """The width of the help, in the columns of a terminal."""
    try:
        columns = os.get_terminal_size(sys.__stdout__.fileno()).columns if sys.__stdout__ else 0
    except (OSError, ValueError):
        columns = 0
    return str(min(columns or NARROW, WIDE))


def _completions(environ: Mapping[str, str]) -> str | None:
    """The answer to a shell that completes a subcommand or an option of a command without other words."""
    shell, _, instruction = environ["_FLYTUI_COMPLETE"].partition("_")
    line, cursor = environ.get("COMP_WORDS", ""), environ.get("COMP_CWORD", "")
    # Quotes and escapes are the ordinary way's to read.
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
    command = _commands().get(" ".join(given))
    if command is None or "=" in incomplete or " " in incomplete:
        return None
    option = incomplete.startswith("-")
    if not option and not command["commands"]:
        return None  # the value of an argument
    found = command["options" if option else "commands"]
    chosen = {name: text for name, text in found.items() if name.startswith(incomplete)}
    return "\n".join(_completion(shell, name, text) for name, text in chosen.items())


def _completion(shell: str, name: str, text: str) -> str:
    """One completion as the script of that shell reads it. A name has no colon, and a text has one line."""
    if shell == "zsh":
        return f"plain\n{name}\n{text or '_'}"
    return f"plain,{name}\t{text}" if text and shell == "fish" else f"plain,{name}"
