"""Compares the permissions of an entry with the limit in your settings, `security.max_permissions`.

The limit has the form of an entry's `permissions`. What it does not name, it does not allow; an empty limit
allows nothing, and a limit that cannot be read counts as empty.
"""

from __future__ import annotations

import posixpath

from flycore.model.json import Json, JsonObject
from flycore.model.sidecar import Permissions


def excess_permissions(permissions: Permissions, ceiling: JsonObject | None) -> tuple[str, ...]:
    """Return the declared permissions that the limit does not allow, in words; none where there is no
    limit."""
    if ceiling is None:
        return ()
    fs = ceiling.get("fs")
    files = fs if isinstance(fs, dict) else {}
    found = []
    if permissions.network and ceiling.get("network") is not True:
        found.append("network")
    for name, paths in (("read", permissions.read), ("write", permissions.write)):
        allowed = _strings(files.get(name))
        found += [f"files {name} {path}" for path in paths if not any(_below(path, top) for top in allowed)]
    secrets = _strings(ceiling.get("secrets"))
    found += [f"secret {name}" for name in permissions.secrets if name not in secrets]
    if permissions.desktop and ceiling.get("desktop") is not True:
        found.append("desktop")
    return tuple(found)


def _strings(value: Json) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _below(path: str, top: str) -> bool:
    """Return whether a declared path lies at or below a path of the limit, by their names alone."""
    if path == top or top == "/":
        return True
    # A `${…}` is filled in from a call's input and may lead anywhere, so only the same text or "/" allows it.
    if "${" in path:
        return False
    path, top = posixpath.normpath(path), posixpath.normpath(top)
    if top == ".":
        return not path.startswith(("/", "~")) and path.split("/")[0] != ".."
    return path == top or path.startswith(f"{top}/")
