"""Begins to answer the client of a plain `flytui mcp` before the rest of the program is imported, and makes
the list of tools from which the first one of a root answers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from flycore.model.errors import FlyError
from flycore.registry.paths import RootPaths, find_paths
from flytui.cli.interrupts import run_async

if TYPE_CHECKING:
    from flycore.server.mcp.early_answers import EarlyAnswers

_OPTIONS = ("--root", "--workspace", "--wait", "--wait-approver")
_begun: list[EarlyAnswers] = []


def begin(words: Sequence[str]) -> None:
    """Begin to answer where the words are those of `flytui mcp` with nothing unusual."""
    options: dict[str, str] = {}
    commands: list[str] = []
    rest = iter(words)
    for word in rest:
        if word.startswith("-"):
            name, equals, value = word.partition("=")
            if name not in _OPTIONS or name in options:
                return
            options[name] = value if equals else next(rest, "")
        else:
            commands.append(word)
    numbers = (options[name] for name in ("--wait", "--wait-approver") if name in options)
    folders = (options[name] for name in ("--root", "--workspace") if name in options)
    if commands != ["mcp"] or not all(map(os.path.isdir, folders)) or not all(map(str.isdecimal, numbers)):
        return
    # The kernel's server, which only `flytui mcp` needs.
    from flycore.server.mcp.early_answers import EarlyAnswers

    places = find_paths(options.get("--root"), options.get("--workspace"), os.environ, Path.cwd())
    answers = EarlyAnswers(0, 1, places.mcp_tools_file)
    answers.start()
    _begun.append(answers)


def early_answers() -> EarlyAnswers | None:
    """Return what was begun, once."""
    return _begun.pop() if _begun else None


def store_list(places: RootPaths) -> None:
    """Make the list of tools from which the first `flytui mcp` of the root answers.

    Without it, that one answers once its kernel is open, and some clients begin before, without the tools.
    """
    # The server; and the client, for which an agent would wait before the first answer.
    from flycore.client.client import connect
    from flycore.server.mcp.tool_list import StoredLists, tool_list_of

    async def store() -> None:
        async with connect(places) as client:
            StoredLists(places.mcp_tools_file).store(tool_list_of(await client.catalog()))

    with suppress(FlyError):
        run_async(store)
