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
from typing import Any

_LONGEST = 4_000
_FRAMES = 8


def main() -> None:
    """Call the function that the arguments name, and print one answer."""
    answer_to = os.dup(1)
    # What the function prints must not be taken for its answer.
    os.dup2(2, 1)
    request = json.loads(sys.stdin.buffer.read())
    # `-I` leaves the working folder out of the search path, so that nothing there is imported before this.
    sys.path.insert(0, os.getcwd())
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
