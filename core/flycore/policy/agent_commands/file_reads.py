"""What the tools of a coding agent read that open, list or search files themselves."""

from __future__ import annotations

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
}
_OPTIONS = {
    "Read": {"offset", "limit", "pages"},
    "NotebookRead": {"cell_id"},
    "LS": {"ignore"},
    "Glob": set[str](),
    "Grep": {
        "glob", "type", "output_mode", "-A", "-B", "-C", "-n", "-i", "-o", "context", "head_limit", "offset",
        "multiline",
    },
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
    paths = [PathUse(path=path, access=_access(tool, options))]
    if tool == "Glob":
        paths.append(PathUse(path=_fixed_part(str(input.get("pattern", "")), path), access=Access.LIST))
    return ReadPlan(commands=(tool,), paths=tuple(paths))


def _access(tool: str, options: JsonObject) -> Access:
    if tool != "Grep":
        return _ACCESS[tool]
    # What a glob or a type names is searched even where git ignores it.
    glob, kind = options.get("glob"), options.get("type")
    plain = (glob is None or (isinstance(glob, str) and is_simple_glob(glob))) and (
        kind is None or (isinstance(kind, str) and is_simple_type(kind))
    )
    return Access.TREE_UNIGNORED if plain else Access.TREE


def _fixed_part(pattern: str, folder: str) -> str:
    """The folder that a pattern starts at: its parts before the first one with a pattern character."""
    parts = pattern.split("/")
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
