"""Gibson: `component.yaml` of a tool, and its folder of tools `~/.gibson/tools/bin`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from flycore.discovery.diagnostics import MOST_NAME, MOST_SUMMARY, shorten
from flycore.discovery.other_systems.model import (
    NO_ID,
    FoundFile,
    Migration,
    OtherSystem,
    Places,
    executable_entry,
    is_secret,
    project_path,
    secret_findings,
    usable_text,
    yaml_places,
)
from flycore.discovery.secret_detection import secret_arguments
from flycore.discovery.server_import import entry_id
from flycore.model.diagnostics import Diagnostic
from flycore.model.durations import duration_ms
from flycore.model.json import Json, JsonObject, pointer_join
from flycore.model.migration import Verdict
from flycore.registry.loader_environment import may_be_passed
from flycore.registry.names import RESERVED_PREFIX, looks_secret
from flycore.registry.paths import REGISTRY_FILE

if TYPE_CHECKING:
    from flycore.discovery.scan import SearchRoots

NAMES = ("component.yaml", "component.yml")
FOLDERS = ("tools", "components")
"""Folders of the project whose folders may hold a component each."""
HOME_FOLDER = ".gibson/tools"
SEARCHED = ".gibson/tools/bin"
TYPES = ("go", "binary", "python", "node", "docker", "http", "grpc")
_STARTED = {"go": "", "binary": "", "python": "python3", "node": "node"}
"""Types that run as a program of their own, each with its interpreter."""
_SERVERS = {
    "http": "it is a server on HTTP: a registry entry of the kind mcp can name only MCP servers",
    "grpc": "it is a gRPC server: build it with the subprocess mode of Gibson's own kit",
    "docker": "it runs in a container, which flytui does not start",
}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+){1,2}(?:[-+][0-9A-Za-z.+-]+)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def files(roots: SearchRoots) -> Iterator[FoundFile]:
    """Yield the component files of the project, of its folders, and of the person's installed tools."""
    folders = [""]
    for parent in FOLDERS:
        folders += (f"{parent}/{name}/" for name in roots.project.folders(parent).names)
    yield from (FoundFile(roots.project, f"{folder}{name}") for folder in folders for name in NAMES)
    if roots.home is not None:
        for folder in roots.home.folders(HOME_FOLDER).names:
            yield from (FoundFile(roots.home, f"{HOME_FOLDER}/{folder}/{name}") for name in NAMES)


def read(text: str, shown: str) -> Places:
    """Return the file with its places, and the problem of its syntax."""
    return yaml_places(text, shown, "component", "write name: … and runtime: …")


def check(text: str, shown: str) -> list[Diagnostic]:
    """Return the findings of a component file."""
    file = read(text, shown)
    if file.found or not isinstance(file.value, dict):
        return file.found
    fields = file.value
    name, version = fields.get("name"), fields.get("version")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        file.add("/name", "component", "name must be 1 to 64 of a-z A-Z 0-9 _ -", "write name: …")
    if not isinstance(version, str) or _VERSION.fullmatch(version) is None:
        file.add("/version", "component", "version must be a text such as 1.0.0", 'write version: "1.0.0"')
    kind = fields.get("kind", "tool")
    if kind not in ("tool", "component"):
        remedy = "nothing: flytui runs tools only"
        file.inform("/kind", "component-kind", "is not a tool, so flytui does not read it", remedy)
    elif "runtime" not in fields:
        file.warn(
            "", "component-runtime", "has no runtime, so nothing says what to start", "write runtime: …"
        )
    else:
        _check_runtime(file, fields["runtime"])
    for pointer, value in _timeouts(fields):
        if duration_ms(value) is None:
            file.add(pointer, "duration", "the time limit is none", "write a time such as 30s or 5m")
    secret_findings(file)
    return file.found


def time_limit(text: str, shown: str) -> int | None:
    """Return the time limit of a component file in milliseconds; None where it gives none that can be
    read."""
    file = read(text, shown)
    fields = file.value if isinstance(file.value, dict) and not file.found else {}
    return next((duration_ms(value) for _, value in _timeouts(fields)), None)


def _timeouts(fields: JsonObject) -> Iterator[tuple[str, Json]]:
    """Yield the time limits that a component names, the most specific first."""
    for section in ("runtime", ""):
        holder = fields.get(section) if section else fields
        if isinstance(holder, dict) and "timeout" in holder:
            yield f"/{section}/timeout" if section else "/timeout", holder["timeout"]


def _check_runtime(file: Places, runtime: Json) -> None:
    if not isinstance(runtime, dict):
        file.add(
            "/runtime", "component", "runtime must be a mapping", "write runtime: {type: …, entrypoint: …}"
        )
        return
    kind = runtime.get("type")
    if kind not in TYPES:
        file.add(
            "/runtime/type", "component", "type must be one of " + ", ".join(TYPES), "write type: binary"
        )
    elif isinstance(kind, str) and kind in _SERVERS:
        remedy = "give it a program that reads standard input"
        file.warn("/runtime/type", "component-runtime", f"cannot be run: {_SERVERS[kind]}", remedy)
    if not isinstance(runtime.get("entrypoint"), str) or not str(runtime["entrypoint"]).strip():
        file.add("/runtime/entrypoint", "component", "the entrypoint is missing", "write entrypoint: ./NAME")
    args, env = runtime.get("args", []), runtime.get("env", {})
    words = [arg for arg in args if isinstance(arg, str)] if isinstance(args, list) else []
    if not isinstance(args, list) or len(words) < len(args):
        file.add("/runtime/args", "component", "args must be a list of texts", 'write args: ["…"]')
    elif secret_arguments(words):
        remedy = "pass it to the program in an environment variable"
        file.warn("/runtime/args", "secret-value", "an argument looks like a secret", remedy)
    if not isinstance(env, dict) or not all(isinstance(item, str) for item in env.values()):
        file.add("/runtime/env", "component", "env must name texts", "write env: {NAME: value}")


def migrate(roots: SearchRoots, into: Migration) -> None:
    """Add an entry for each component of the project, and what is searched anyway."""
    for found in files(roots):
        text = usable_text(found, check, into)
        if text is None:
            continue
        if found.folder is not roots.project:
            into.cannot(
                found.shown,
                shorten(found.relative.split("/")[-2], MOST_NAME),
                f"an entry cannot name a program outside the project; its program in ~/{SEARCHED} is found",
            )
        else:
            _migrate_component(read(text, found.shown), found.relative, into)
    if roots.home is not None and (roots.home.path / SEARCHED).is_dir():
        folder = f"~/{SEARCHED}"
        into.as_is(folder, folder, "searched without configuration; what is found there waits for trust")


def _migrate_component(file: Places, relative: str, into: Migration) -> None:
    fields: dict[str, Any] = file.value if isinstance(file.value, dict) else {}
    name, source = shorten(str(fields["name"]), MOST_NAME), file.at("")
    runtime: dict[str, Any] = fields.get("runtime", {})
    why = ""
    if fields.get("kind", "tool") not in ("tool", "component"):
        why = f"it is a component of the kind {shorten(str(fields['kind']), 40)}; flytui runs tools only"
    elif not runtime:
        why = "it says nothing of what to start"
    else:
        why = _SERVERS.get(runtime["type"], "")
    folder = relative.rpartition("/")[0]
    command, args = _command(runtime, folder, into) if not why else ("", [])
    if not why and not command:
        why = "its program is outside the project: put it into the folder of its component file"
    if not why and secret_arguments(args):
        why = "an argument looks like a secret: pass it to the program in an environment variable"
    sidecar = entry_id(name)
    if why or not sidecar:
        into.cannot(source, name, why or NO_ID)
        return
    description = shorten(" ".join(str(fields.get("description", "")).split()), MOST_SUMMARY)
    entry = executable_entry(sidecar, command, description)
    if args:
        entry["args"] = list(args)
    notes = ["an entry without network and without files: flytui sandbox learn says what it lacks"]
    notes += _variables(entry, fields)
    limit = next(_timeouts(fields), None)
    if limit is not None:
        entry["timeoutMs"] = duration_ms(limit[1])
        notes.append(f"timeout is written as timeoutMs {entry['timeoutMs']}")
    if runtime.get("workdir") not in (None, "", "."):
        notes.append("workdir is left out: the program starts in the project's folder")
    line = into.line(Verdict.REWRITTEN, source, name, "; ".join(notes), REGISTRY_FILE)
    into.entries.append((sidecar, entry, line))
    _left_out(file, fields, into)


def _command(runtime: dict[str, Any], folder: str, into: Migration) -> tuple[str, list[str]]:
    """Return command and arguments; an empty command where the program is outside the project."""
    entrypoint, args = str(runtime["entrypoint"]).strip(), list(runtime.get("args", []))
    inside = entrypoint if entrypoint.startswith("/") else f"{folder}/{entrypoint}".lstrip("/")
    below = project_path(inside, into.app_root)
    if below is None or below == ".":
        return "", []
    interpreter = _STARTED[runtime["type"]]
    return (interpreter, [f"./{below}", *args]) if interpreter else (f"./{below}", args)


def _variables(entry: JsonObject, fields: dict[str, Any]) -> Iterator[str]:
    """Add the variables to the entry, and yield what becomes of those that are not copied."""
    dependencies = fields.get("dependencies")
    needed = dependencies.get("env") if isinstance(dependencies, dict) else None
    given: dict[str, Any] = {
        **(needed if isinstance(needed, dict) else {}),
        **fields["runtime"].get("env", {}),
    }
    kept: dict[str, str] = {}
    passed: list[str] = []
    secrets: list[str] = []
    for name, value in sorted(given.items()):
        text = value if isinstance(value, str) else ""
        if _VARIABLE.fullmatch(name) is None or name.startswith(RESERVED_PREFIX):
            yield f"the variable {shorten(name, 80)} is left out: flytui cannot set one of that name"
        elif looks_secret(name) or is_secret(name, text):
            secrets.append(name)
            yield f"the value of {name} is not copied: set {name} where flytui is started"
        elif name in fields["runtime"].get("env", {}) and "${" not in text:
            kept[name] = text
            if not may_be_passed(name):
                yield f"{name} is set, which decides which code is loaded"
        elif may_be_passed(name):
            passed.append(name)
        else:
            yield f"{name} is left out: it decides which code is loaded"
    if kept:
        entry["env"] = dict(kept)
    if passed:
        entry["passEnv"] = list(passed)
    if secrets:
        entry["permissions"] = {"secrets": list(secrets)}


def _left_out(file: Places, fields: dict[str, Any], into: Migration) -> None:
    """Add what of a component has no place in an entry."""
    name = shorten(str(fields["name"]), MOST_NAME)
    for key, why in (
        ("build", "flytui builds nothing: build the program before it is trusted"),
        ("dependencies", "flytui installs nothing: what it needs has to be on PATH"),
    ):
        if key in fields:
            into.cannot(file.at(pointer_join("", key)), f"{name}: {key}", why)


GIBSON = OtherSystem("gibson", "Gibson", NAMES, files, check, migrate)
