"""What the tools of a coding agent read that open, list or search files themselves."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from flycore.model.agent_actions import is_file_address
from flycore.model.json import JsonObject
from flycore.policy.agent_commands.options import Objection
from flycore.policy.agent_commands.plan import Access, PathUse, ReadPlan, is_simple_glob, is_simple_type
from flycore.policy.agent_commands.table import Effect

_ACCESS = {
    "Read": Access.READ,
    "NotebookRead": Access.READ,
    "LS": Access.LIST,
    "Glob": Access.LIST,
    "Grep": Access.TREE_UNIGNORED,
    "WebFetch": Access.READ,  # of an address of a local file; every other one is `agent.fetch`
}
_OPTIONS = {
    "Read": {"offset", "limit", "pages", "view_range", "forceReadLargeFiles"},
    "NotebookRead": {"cell_id"},
    "LS": {"ignore"},
    "Glob": set[str](),
    "Grep": {
        "glob", "type", "output_mode", "-A", "-B", "-C", "-n", "-i", "-o", "context", "head_limit", "offset",
        "multiline",
    },
    "WebFetch": {"prompt", "max_length", "start_index", "raw"},
}  # fmt: skip
"""The members of the input of each tool, besides path and pattern, that change nothing of what may be
read."""


def plan_read(input: JsonObject) -> ReadPlan:
    """Return what a call of `agent.read` reads. Raises Objection."""
    tool = str(input.get("tool", ""))
    options = input.get("options", {})
    if tool not in _ACCESS or not isinstance(options, dict):
        raise Objection(f"{tool!r} is no tool that flytui knows to only read")
    if unknown := sorted(options.keys() - _OPTIONS[tool]):
        raise Objection(f"{unknown[0]!r} is no option of {tool} that flytui knows to only read")
    path = str(input.get("path", "."))
    if tool == "WebFetch" and not is_file_address(path):
        raise Objection(f"{path!r} is no address of a file")
    meanings = _meanings(path)
    paths = [PathUse(path=one, access=_access(tool, options)) for one in meanings]
    if tool == "Glob":
        pattern = str(input.get("pattern", ""))
        paths += [PathUse(path=_fixed_part(pattern, one), access=Access.LIST) for one in meanings]
    return ReadPlan(commands=(tool,), paths=tuple(paths))


_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)
_FILE_ADDRESS = re.compile(r"file:(?://(?:localhost)?(?=/))?(/[^?#\\]*)", re.IGNORECASE)
_ESCAPE = re.compile(r"%(?![0-9a-f]{2})", re.IGNORECASE)


def _meanings(path: str) -> tuple[str, ...]:
    """Return the paths that agents may take a text for: itself, and what it is the address of. Raises
    Objection for a home folder, and for an address that has no such path."""
    if path.startswith("~"):
        raise Objection(f"{path!r} may be in a home folder", Effect.LEAVES)
    if is_file_address(path):
        return path, _path_of_address(path)
    if _ADDRESS.match(path.lstrip()) and "/" in path:
        raise Objection(f"{path!r} is an address, and no path", Effect.LEAVES)
    return (path,)


def _path_of_address(address: str) -> str:
    found = _FILE_ADDRESS.fullmatch(address.split("?")[0].split("#")[0])
    written = found[1] if found is not None else ""
    path = unquote_to_bytes(written).decode("utf-8", "replace")
    # A program that decodes an address twice would take one with a further `%` for another path.
    if not path or _ESCAPE.search(written) or "%" in path or "\ufffd" in path:
        raise Objection(f"{address!r} is an address that flytui cannot read", Effect.LEAVES)
    return path


def _access(tool: str, options: JsonObject) -> Access:
    if tool != "Grep":
        return _ACCESS[tool]
    # What a glob or a type names is searched even where git ignores it.
    glob, kind = options.get("glob"), options.get("type")
    plain = (glob is None or (isinstance(glob, str) and is_simple_glob(glob))) and (
        kind is None or (isinstance(kind, str) and is_simple_type(kind))
    )
    return Access.TREE_UNIGNORED if plain else Access.TREE


_ABSOLUTE = re.compile(r"^~|[{(,|]\s*(?:/|~|[a-z][a-z0-9+.-]+:)|^[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
"""A pattern, or an alternative in one, that starts somewhere else than in the folder of the search."""


def _fixed_part(pattern: str, folder: str) -> str:
    """The folder that a pattern starts at: its parts before the first one with a pattern character."""
    parts = pattern.split("/")
    if is_file_address(pattern) or _ABSOLUTE.search(pattern):
        raise Objection("the pattern may fit names elsewhere", Effect.LEAVES)
    if ".." in parts or any(".." in part and "{" in part for part in parts):
        raise Objection("the pattern has `..`, which leads up", Effect.LEAVES)
    fixed = []
    for part in parts:
        if any(one in part for one in "*?[]{}()!+@\\"):
            break
        fixed.append(part)
    start = "/".join(fixed)
    if pattern.startswith("/"):
        return start or "/"
    return f"{folder}/{start}" if start else folder
