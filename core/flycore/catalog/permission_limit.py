"""What an entry declares beyond the person's ceiling, `security.max_permissions`. Pure.

The ceiling has the form of an entry's `permissions`, and what it does not name it does not allow: an empty
one, as a ceiling that cannot be read counts, allows nothing.
"""

from __future__ import annotations

import posixpath

from flycore.model.json import Json, JsonObject
from flycore.model.sidecar import Permissions


def excess_permissions(permissions: Permissions, ceiling: JsonObject | None) -> tuple[str, ...]:
    """Each permission that is too much, in words; none where there is no ceiling."""
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
    """Whether a declared path lies at or below one of the ceiling, by their names. What an input fills in
    may lead anywhere: only the same words, or everything, allow it."""
    if path == top or top == "/":
        return True
    if "${" in path:
        return False
    path, top = posixpath.normpath(path), posixpath.normpath(top)
    if top == ".":
        return not path.startswith(("/", "~")) and path.split("/")[0] != ".."
    return path == top or path.startswith(f"{top}/")
