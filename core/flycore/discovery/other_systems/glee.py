"""Glee: `.glee/config.yml` and the tool manifests `.glee/tools/NAME/tool.yml`.

A manifest has the form of flytui's own, and is read where it is. One that flytui refuses is copied, comments
included, with the parts changed: absolute paths, and permissions that say less than the tool does.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from flycore.discovery.diagnostics import shorten
from flycore.discovery.other_systems.model import (
    FoundFile,
    Migration,
    OtherSystem,
    Places,
    is_secret,
    project_path,
    read_found,
    secret_findings,
    texts_of,
    usable_text,
    yaml_places,
)
from flycore.discovery.secret_detection import secret_header, secret_url
from flycore.model.diagnostics import Diagnostic, Severity
from flycore.model.json import Json, JsonObject, pointer_join, unescape_key
from flycore.model.migration import Verdict
from flycore.registry.created_tools import limit_faults
from flycore.registry.manifest import parse_manifest
from flycore.registry.paths import MANIFEST_FILE, MANIFESTS_DIR, TOOLS_CONFIG_FILE

if TYPE_CHECKING:
    from flycore.discovery.scan import SearchRoots

CONFIG_FILE = ".glee/config.yml"
TOOLS_FOLDER = ".glee/tools"
LIMIT = "/security/max_permissions"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
_OUT_OF_SCOPE = {
    "agents": "flytui runs no agents",
    "workflows": "flytui runs no workflows",
    "agent_sessions": "sessions of agents are their own",
}
_PATHS = ("/exec/command/entrypoint", "/exec/command/cwd", "/exec/python/cwd", "/exec/python/venv")
"""Keys of a manifest that hold one path."""


def files(roots: SearchRoots) -> Iterator[FoundFile]:
    """Yield the configuration file of the project."""
    yield FoundFile(roots.project, CONFIG_FILE)


def manifests(roots: SearchRoots) -> Iterator[tuple[str, FoundFile]]:
    """Yield the tool manifests of the project, each with the name of its folder."""
    for name in roots.project.folders(TOOLS_FOLDER).names:
        yield name, FoundFile(roots.project, f"{TOOLS_FOLDER}/{name}/{MANIFEST_FILE}")


def read(text: str, shown: str) -> Places:
    """Return the file with its places, and the problem of its syntax."""
    return yaml_places(text, shown, "config-value", "write security: …")


def check(text: str, shown: str) -> list[Diagnostic]:
    """Return the findings of the configuration file."""
    file = read(text, shown)
    if file.found or not isinstance(file.value, dict):
        return file.found
    security = file.value.get("security", {})
    if not isinstance(security, dict):
        remedy = "write security: {max_permissions: {}}"
        file.add("/security", "config-value", "security must be a mapping", remedy)
    elif "max_permissions" in security:
        for below, message, remedy in limit_faults(security["max_permissions"]):
            file.add(f"{LIMIT}{below}", "config-value", message, remedy)
    secret_findings(file)
    return file.found


def migrate(roots: SearchRoots, into: Migration) -> None:
    """Add the limit of the configuration file, and each tool manifest."""
    for found in files(roots):
        text = usable_text(found, check, into)
        if text is not None:
            _migrate_limit(read(text, found.shown), into)
    for name, found in manifests(roots):
        text, problem = read_found(found)
        if problem is not None:
            into.cannot(found.shown, shorten(name, 80), problem.message)
        elif text is not None:
            _migrate_manifest(name, text, found.shown, into)
    folder = roots.project.path / ".glee"
    for name, why in _OUT_OF_SCOPE.items():
        if (folder / name).is_dir():
            into.cannot(f".glee/{name}", name, why)


def _migrate_limit(file: Places, into: Migration) -> None:
    value: dict[str, Any] = file.value if isinstance(file.value, dict) else {}
    for key in value:
        if key != "security":
            why = "flytui has no setting of that meaning"
            into.cannot(file.at(pointer_join("", key)), shorten(key, 80), why)
    limit = value.get("security", {}).get("max_permissions")
    if limit is None:
        return
    kept: JsonObject = {"network": limit.get("network", True)}
    left: list[str] = []
    paths: JsonObject = {}
    for key in ("read", "write"):
        named = limit.get("fs", {}).get(key)
        if named is not None:
            inside = [(path, project_path(path, into.app_root)) for path in named]
            paths[key] = [below for _, below in inside if below is not None]
            left += (path for path, below in inside if below is None)
    kept["fs"] = paths
    kept["secrets"] = list(limit.get("secrets", []))
    subject = "security.max_permissions"
    if not left:
        into.as_is(file.at(LIMIT), subject, "read where it is, as a limit of the project")
        return
    text = f"without {', '.join(left)}, which is outside the project"
    line = into.line(Verdict.REWRITTEN, file.at(LIMIT), subject, text, TOOLS_CONFIG_FILE)
    into.settings.append((LIMIT, kept, line))


def _migrate_manifest(folder: str, text: str, shown: str, into: Migration) -> None:
    file = read(text, shown)
    subject = shorten(folder, 80)
    if file.found:
        into.cannot(str(file.found[0].position), subject, f"correct it first: {file.found[0].message}")
        return
    value: dict[str, Any] = file.value if isinstance(file.value, dict) else {}
    why = _refusal(folder, value)
    if why is not None:
        into.cannot(file.at(why[0]), subject, why[1])
        return
    changes, notes, why = _changes(value, into)
    if why is not None:
        into.cannot(file.at(why[0]), subject, why[1])
        return
    written = _with_changes(text, changes) if changes else text
    problems = parse_manifest(written, shown, folder=folder).problems
    error = next((problem for problem in problems if problem.severity is Severity.ERROR), None)
    if error is not None:
        into.cannot(file.at(error.pointer), subject, f"flytui does not accept it: {error.message}")
        return
    notes += [problem.message for problem in problems]
    if not changes:
        # A copy would be a second tool of the same name.
        into.as_is(file.at(""), subject, "; ".join(("read where it is; it waits for trust", *notes)))
        return
    target = f"{MANIFESTS_DIR}/{folder}/{MANIFEST_FILE}"
    line = into.line(Verdict.REWRITTEN, file.at(""), subject, "; ".join(notes), target)
    into.manifests.append((folder, written, line))


def _refusal(folder: str, value: dict[str, Any]) -> tuple[str, str] | None:
    """Return (pointer, sentence) for what no change makes good: a wrong name, a secret, an unknown name."""
    if _NAME.fullmatch(folder) is None:
        return "", "its folder's name is not 1 to 64 of A-Z a-z 0-9 . _ -"
    if value.get("name") != folder:
        return "/name", "its name is not that of its folder: give both the same name"
    declared = _declared(value)
    for pointer, key, text in texts_of(value, "", ""):
        plain = _PLACEHOLDER.sub("", text)
        header = "/headers/" in pointer and plain == text and secret_header(key, text)
        if header or (plain == text and is_secret(key, text)) or secret_url(plain):
            why = "its value looks like a secret, which is not copied: declare a secret, and write ${NAME}"
            return pointer, why
        if not pointer.startswith("/exec/"):
            continue
        unknown = [name for name in _PLACEHOLDER.findall(text) if name not in declared]
        if unknown:
            return pointer, f"${{{shorten(unknown[0], 80)}}} is neither an input nor a declared secret"
    return None


def _declared(value: dict[str, Any]) -> set[str]:
    """Return the names that a placeholder of the manifest may have."""
    names: set[str] = set()
    for steps in (("inputs", "schema", "properties"), ("permissions", "secrets")):
        node: Any = value
        for step in steps:
            node = node.get(step) if isinstance(node, dict) else None
        names |= set(node) if isinstance(node, dict) else set()
    return names


_Changes = dict[str, Json]
"""The new value of each part that changes, by JSON pointer."""


def _changes(value: dict[str, Any], into: Migration) -> tuple[_Changes, list[str], tuple[str, str] | None]:
    """Return the changes, the notes about them, and (pointer, sentence) where a path leads elsewhere."""
    changes: _Changes = {}
    notes: list[str] = []
    for pointer in _PATHS:
        path = _at(value, pointer)
        if isinstance(path, str) and (path.startswith(("/", "~")) or ".." in path.split("/")):
            below = project_path(path, into.app_root)
            if below is None:
                return {}, [], (pointer, "its path leads out of the project: put what it names there")
            program = pointer.endswith("entrypoint")
            changes[pointer] = f"./{below}" if program and below != "." else below
            notes.append(f"{pointer[1:].replace('/', '.')} becomes a path from the app root")
    for key in ("read", "write"):
        pointer = f"/permissions/fs/{key}"
        named = _at(value, pointer)
        paths = [path for path in named if isinstance(path, str)] if isinstance(named, list) else []
        if any(path.startswith(("/", "~")) or ".." in path.split("/") for path in paths):
            inside = [project_path(path, into.app_root) for path in paths]
            changes[pointer] = [path for path in inside if path is not None]
            outside = sum(path is None for path in inside)
            notes.append(
                f"permissions.fs.{key} has paths from the app root"
                + (f", without {outside} outside the project" if outside else "")
            )
    if value.get("kind") == "http" and _at(value, "/permissions/network") is not True:
        if "permissions" in value and isinstance(value["permissions"], dict):
            changes["/permissions/network"] = True
        else:
            changes["/permissions"] = {"network": True}
        notes.append("network is permitted, without which a request cannot be made")
    return changes, notes, None


def _at(value: Json, pointer: str) -> Json:
    for step in pointer.split("/")[1:]:
        value = value.get(unescape_key(step)) if isinstance(value, dict) else None
    return value


def _with_changes(text: str, changes: _Changes) -> str:
    """Return the text with the changes. Comments and the order of keys stay."""
    from ruamel.yaml import YAML

    # The text was read before without tags and aliases, so this reader builds plain values only.
    yaml = YAML(typ="rt", pure=True)
    yaml.preserve_quotes = True
    yaml.width = 4096
    document: Any = yaml.load(text)
    for pointer, wanted in changes.items():
        *above, last = (unescape_key(step) for step in pointer.split("/")[1:])
        node = document
        for step in above:
            node = node[step]
        node[last] = wanted
    stream = io.StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()


GLEE = OtherSystem("glee", "Glee", (CONFIG_FILE,), files, check, migrate)
