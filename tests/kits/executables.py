"""Executables that describe themselves, in both forms, well-behaved and not."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

from kits.kernel import Root

ECHO_SCHEMA = {
    "name": "echo",
    "description": "Say a text again.",
    "parameters": {
        "text": {"type": "string", "description": "what to say", "required": True},
        "times": {"type": "integer", "description": "how often", "required": False, "default": 2},
    },
}
COUNT_SCHEMA = {
    "name": "count",
    "version": "1.2.0",
    "description": "Count the letters of a text.",
    "tags": ["text"],
    "input_schema": {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    },
    "output_schema": {"type": "object", "properties": {"letters": {"type": "integer"}}},
}
ECHO_BODY = """
answer = " ".join([data["text"]] * data["times"])
print(json.dumps({"success": True, "result": answer, "metadata": {"length": len(answer), "ratio": 0.5}}))
"""
COUNT_BODY = """
print(json.dumps({"letters": len(data["text"])}))
"""


def program(schema: Any, body: str = "print('{}')") -> str:
    """A tool that prints its schema when it is asked, and else runs `body` with the input as `data`."""
    return f"""#!/usr/bin/env python3
import json, os, sys, time

if "--schema" in sys.argv:
    print({json.dumps(schema)!r})
    raise SystemExit(0)
data = json.loads(sys.stdin.read() or "{{}}")
{body}
"""


def shell(on_schema: str, on_call: str = "cat >/dev/null; echo '{}'") -> str:
    """A tool in shell: one command for the question, one for a call."""
    return f"""#!/bin/sh
if [ "$1" = --schema ]; then
{on_schema}
exit $?
fi
{on_call}
"""


def printing(schema: Any) -> str:
    """A shell command that prints the schema."""
    return f"printf '%s' {shlex.quote(json.dumps(schema))}"


def put(folder: Path, name: str, text: str, mode: int = 0o755) -> Path:
    """Put an executable into a folder in one step, as an installer does."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = folder / f".{target.name}.new"
    fresh.write_text(text)
    fresh.chmod(mode)
    os.replace(fresh, target)
    return target


def project_tools(root: Root) -> Path:
    """The project's folder of executables, what lies in which waits for trust."""
    return root.folder / "tools" / "bin"


def user_tools(root: Root) -> Path:
    """The user's own folder of executables, what lies in which is trusted."""
    folder = root.places.user_tools_dir
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
