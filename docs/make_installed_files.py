"""Writes what a package installs beside the program: python docs/make_installed_files.py

The manual page `flytui.1`, made from the help of all commands, and the completions of bash, zsh and fish. The
wheel has them where shells and `man` look for them, below `share`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import ShellComplete, get_completion_class

from flytui.cli.root_command import flytui
from flytui.cli.shell_completion import PROGRAM, VARIABLE

FOLDER = Path(__file__).resolve().parent / "installed"
MANUAL = "flytui.1"
SCRIPTS = {"bash": "flytui.bash", "zsh": "_flytui", "fish": "flytui.fish"}


def installed_texts() -> dict[str, str]:
    """Returns the text of each file by its name."""
    scripts = {name: _script(shell) for shell, name in SCRIPTS.items()}
    return {MANUAL: manual_page(), **scripts}


def _script(shell: str) -> str:
    kind = get_completion_class(shell)
    if kind is None:
        raise ValueError(f"there is no completion for {shell}")
    # The method of bash's own class starts a bash to ask for its version.
    return ShellComplete.source(kind(flytui, {}, PROGRAM, VARIABLE)).strip() + "\n"


def manual_page() -> str:
    """Returns the manual page in the language of `man`, man(7)."""
    root = click.Context(flytui, info_name=PROGRAM, **flytui.context_settings)
    lines = [
        f".TH {PROGRAM.upper()} 1",
        ".SH NAME",
        rf"{PROGRAM} \- {_plain(flytui.get_short_help_str(1000)).rstrip('.')}",
        ".SH SYNOPSIS",
        *_synopsis(root),
        ".SH DESCRIPTION",
        *_paragraphs(flytui),
        ".SH OPTIONS",
        *_options(root),
        ".SH COMMANDS",
        _plain("Every command takes --root, --workspace, --json, --plain and --help too."),
    ]
    for context in _commands(root):
        lines += [f".SS {_plain(context.command_path)}", *_synopsis(context), ".PP"]
        lines += [*_paragraphs(context.command), *_options(context)]
    return "\n".join(lines) + "\n"


def _commands(context: click.Context) -> Iterator[click.Context]:
    """The contexts of the commands below this one, each before those below it, without hidden ones."""
    group = context.command
    for name in group.list_commands(context) if isinstance(group, click.Group) else ():
        found = group.get_command(context, name) if isinstance(group, click.Group) else None
        if found is not None and not found.hidden:
            inner = click.Context(found, info_name=name, parent=context, **found.context_settings)
            yield inner
            yield from _commands(inner)


def _synopsis(context: click.Context) -> list[str]:
    words = " ".join(context.command.collect_usage_pieces(context))
    return [f".B {_plain(context.command_path)}", _plain(words)]


def _paragraphs(command: click.Command) -> list[str]:
    text = inspect.cleandoc(command.help or "").partition("\f")[0].replace("\b", "")
    return [line for part in text.split("\n\n") for line in (*_filled(part), ".PP")][:-1]


def _filled(paragraph: str) -> list[str]:
    return [_plain(line.strip()) for line in paragraph.strip().splitlines()]


def _options(context: click.Context) -> list[str]:
    """The options of a command, without those that every command has: they stand at the top once."""
    common = set() if context.parent is None else {option.name for option in flytui.get_params(context)}
    records = (
        parameter.get_help_record(context)
        for parameter in context.command.get_params(context)
        if isinstance(parameter, click.Option) and parameter.name not in common
    )
    return [
        line for record in records if record for line in (".TP", f".B {_plain(record[0])}", _plain(record[1]))
    ]


def _plain(text: str) -> str:
    """The text without a meaning to `man`: a backslash, a hyphen, and a point at its beginning."""
    plain = text.replace("\\", r"\(rs").replace("-", r"\-")
    plain = "".join(letter if letter.isascii() else rf"\[u{ord(letter):04X}]" for letter in plain)
    return rf"\&{plain}" if plain[:1] in (".", "'") else plain


if __name__ == "__main__":
    for name, text in installed_texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
