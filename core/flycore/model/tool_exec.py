"""How a declared tool is carried out without a program of the protocol: a request, a command, or a function.

The values hold templates: texts in which `${name}` stands for an input of the call or a declared secret. They
are filled in by `flycore.model.placeholders`.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from flycore.model.base import Value
from flycore.model.json import Json, JsonObject


class OutputFormat(StrEnum):
    """How the output of a tool is read."""

    JSON = "json"
    TEXT = "text"


class SecretType(StrEnum):
    """The type of a secret, which a placeholder that is a whole value keeps."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"


class ResponseField(Value, frozen=True, kw_only=True):
    """One field of a projection: the name in the output, and the dotted path in the response."""

    name: str
    path: str


class HttpExec(Value, frozen=True, kw_only=True, tag_field="kind", tag="http"):
    """One HTTP request, which the kernel sends itself."""

    method: str = "GET"
    url: str
    headers: dict[str, str] = {}
    query: JsonObject = {}
    """Values are templates; a list gives its parameter several times."""
    body: Json | msgspec.UnsetType = msgspec.UNSET
    json_path: str = ""
    """Dotted path into the response; empty for all of it."""
    fields: tuple[ResponseField, ...] = ()
    """What is kept of the result, or of each item of it where it is a list; empty for all of it."""
    format: OutputFormat = OutputFormat.JSON


class CommandExec(Value, frozen=True, kw_only=True, tag_field="kind", tag="command"):
    """One run of a program, without a shell. The program is the entry's `command`, with its `args`."""

    format: OutputFormat = OutputFormat.TEXT
    exit_codes_ok: tuple[int, ...] = (0,)


class PythonExec(Value, frozen=True, kw_only=True, tag_field="kind", tag="python"):
    """One call of a Python function in a process of its own."""

    module: str
    function: str
    args: Json = []
    """A list of positional arguments, or an object of named ones."""
    venv: str = ""
    """Folder of the virtual environment whose interpreter runs it; empty for the `python3` on PATH."""
    format: OutputFormat = OutputFormat.JSON


ToolExec = HttpExec | CommandExec | PythonExec


class ExampleCall(Value, frozen=True, kw_only=True):
    """An example of a tool: an input, and the output that is expected of it."""

    description: str = ""
    params: JsonObject = {}
    expected_output: Json | msgspec.UnsetType = msgspec.UNSET
