"""Writes the help and the completions of all commands into a file: python docs/make_command_texts.py

`tui/flytui/cli/command_texts.py` prints them from there without the library that makes them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import click
from click.shell_completion import BashComplete, CompletionItem

from flytui.cli.command_texts import FILE, NARROW, WIDE
from flytui.cli.root_command import flytui
from flytui.cli.shell_completion import any_names, sidecar_names, tool_names

NAME = "flytui"
KINDS = {tool_names: ["tools"], sidecar_names: ["sidecars"], any_names: ["sidecars", "tools"]}


def command_texts() -> dict[str, dict[str, Any]]:
    """Returns each command by its words, with its help by columns, its subcommands, its options, and
    whose names its first argument takes."""
    root = click.Context(flytui, info_name=NAME, **flytui.context_settings)
    return {
        " ".join(path): {
            "help": {str(columns): _help(context, columns) for columns in (NARROW, WIDE)},
            "commands": _completions(path, "") if isinstance(context.command, click.Group) else {},
            "options": _completions(path, "-"),
            "names": _kinds_of_names(context.command),
        }
        for path, context in _contexts(root, ())
    }


def _contexts(
    context: click.Context, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Context]]:
    yield path, context
    command = context.command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None:
                inner = click.Context(found, info_name=name, parent=context, **found.context_settings)
                yield from _contexts(inner, (*path, name))


def _kinds_of_names(command: click.Command) -> list[str]:
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    complete = getattr(arguments[0], "_custom_shell_complete", None) if arguments else None
    return [] if complete is None else KINDS.get(complete, [])


def _help(context: click.Context, columns: int) -> str:
    with mock.patch.dict(os.environ, {"COLUMNS": str(columns)}), context.scope(cleanup=False):
        return context.get_help()


def _completions(path: tuple[str, ...], incomplete: str) -> dict[str, str]:
    found: list[CompletionItem[str]] = BashComplete(flytui, {}, NAME, "").get_completions(
        list(path), incomplete
    )
    if any(item.type != "plain" or ":" in item.value or "\n" in (item.help or "") for item in found):
        raise ValueError(f"{' '.join(path)}: a completion that cannot be kept")
    return {item.value: item.help or "" for item in found}


def text_of_file() -> str:
    """Returns the text of the file."""
    return json.dumps(command_texts(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(FILE).write_text(text_of_file(), encoding="utf-8")
