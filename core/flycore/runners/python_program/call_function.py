"""A program that calls one Python function and prints its result. It uses the standard library only, because
it runs in the interpreter of another project.

Its arguments are a module and a function. Standard input holds `{"args": …, "return": …}` as JSON, where
`args` is a list of positional or an object of named arguments. Standard output gets one JSON object:
`{"ok": true, "result": …}`, or `{"ok": false, "type": …, "message": …, "traceback": …}`. What the function
itself prints goes to standard error.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import sys
import traceback
from collections.abc import Iterator
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ModuleSpec,
    PathFinder,
)
from importlib.util import spec_from_file_location
from typing import Any

_LONGEST = 4_000
_FRAMES = 8
_SUFFIXES = (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES, *BYTECODE_SUFFIXES)
"""The ends of the names of modules, in the order in which Python tries them."""


def main() -> None:
    """Call the function that the arguments name, and print one answer."""
    answer_to = os.dup(1)
    # What the function prints must not be taken for its answer.
    os.dup2(2, 1)
    request = json.loads(sys.stdin.buffer.read())
    # `-I` leaves the working folder out of the search path, so that nothing there is imported before this.
    add_folder(os.getcwd())
    try:
        answer = {"ok": True, "result": _result(sys.argv[1], sys.argv[2], request)}
        text = json.dumps(answer, allow_nan=False)
    except BaseException as error:  # noqa: BLE001 - the edge of the process: every end is an answer
        text = json.dumps(_failure(error))
    with open(answer_to, "wb") as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that the function left behind would keep the process, and the caller with it, waiting.
    os._exit(0)


def add_folder(folder: str) -> None:
    """Let modules of the folder be imported, before those of the same name that lie elsewhere."""
    sys.path.insert(0, folder)
    try:
        os.listdir(folder)
    except PermissionError:
        sys.meta_path.insert(sys.meta_path.index(PathFinder), UnlistedFolder(folder))


class UnlistedFolder:
    """Finds the modules of a folder that may not be listed, although some of what lies in it may be read.

    Python finds a module in the list of its folder. A process under Landlock gets the folder of the module,
    and not that of the project above it, which it therefore cannot list.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return where the module lies, or None where it is no module of this folder that may be read."""
        if path is not None:
            return None
        place = os.path.join(self._folder, name)
        for file in _files(os.path.join(place, "__init__")):
            return spec_from_file_location(name, file, submodule_search_locations=[place])
        for file in _files(place):
            return spec_from_file_location(name, file)
        # A folder without __init__ is a package, too, where no module of that name lies elsewhere: one that
        # is granted for what is written, such as `logging`, must not hide the one of the library.
        elsewhere = PathFinder.find_spec(name)
        if not _may_be_listed(place) or (elsewhere is not None and elsewhere.loader is not None):
            return None
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [place]
        return spec


def _files(stem: str) -> Iterator[str]:
    """The files of a module that may be read."""
    for file in (stem + suffix for suffix in _SUFFIXES):
        try:
            with open(file, "rb"):
                yield file
        except OSError:
            continue


def _may_be_listed(folder: str) -> bool:
    try:
        os.listdir(folder)
    except OSError:
        return False
    return True


def _result(module: str, function: str, request: dict[str, Any]) -> Any:
    called = getattr(importlib.import_module(module), function)
    args = request["args"]
    result = called(**args) if isinstance(args, dict) else called(*args)
    if inspect.isawaitable(result):
        result = asyncio.run(_awaited(result))
    return str(result) if request["return"] == "text" else result


async def _awaited(result: Any) -> Any:
    return await result


def _failure(error: BaseException) -> dict[str, Any]:
    lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-_FRAMES)
    return {
        "ok": False,
        "type": type(error).__name__,
        "message": str(error)[:_LONGEST],
        "traceback": "".join(lines)[-_LONGEST:],
    }


if __name__ == "__main__":
    main()
