"""Flyflor: the registries of its sidecars, what its installers and its upgrades left, and its user tools.

`tools/external.tools.jsonc` is Flyflor's registry and flytui's alike. There, only the dialect of Flyflor's
own programs and the permissions that an entry lacks are added, which Flyflor ignores. Every other file of
Flyflor stays as it is, and its entries are copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from flycore.discovery.diagnostics import MOST_NAME, parsed, shorten
from flycore.discovery.other_systems.model import (
    FoundFile,
    Migration,
    OtherSystem,
    Places,
    is_secret,
    project_path,
    secret_findings,
    texts_of,
    usable_text,
)
from flycore.model.diagnostics import Diagnostic
from flycore.model.json import Json, JsonObject, pointer_join
from flycore.model.migration import Verdict
from flycore.registry.names import looks_secret
from flycore.registry.paths import LEGACY_REGISTRY_FILE, REGISTRY_FILE

if TYPE_CHECKING:
    from flycore.discovery.scan import SearchRoots

DIALECT = "flyflor"
HOME_REGISTRY = ".flyflor/.config/tools/external.tools.jsonc"
HOME_TOOLS = ".flyflor/.config/tools.jsonc"
PROJECT_TOOLS = ".flyflor/tools.jsonc"
STAGED = f"{REGISTRY_FILE}.next"
NAMES = (
    ".config/tools/external.tools.jsonc",
    ".config/tools.jsonc",
    PROJECT_TOOLS,
    "external.tools.jsonc.next",
)
HIGH_LEVEL = ("computer.use", "browser.use")
"""Tools that flytui serves itself."""
MOST_ENTRIES = 256
_KEPT = (
    *("command", "args", "env", "passEnv", "enabled", "disabledReason", "kind", "instances", "idleMs"),
    *("config", "delegates", "timeoutMs", "maxOutputBytes", "packageId", "packageVersion", "protocolVersion"),
    *("compatibleCore", "probe", "permissions", "limits", "dialect", "tools"),
)
"""Keys of an entry that a registry of flytui has, too. `cwd` is the project in each entry that is copied."""
_STARTERS = ("flyflor", "xtool-sidecar")
_OUTSIDE = (
    "its program is outside the project, and a registry names no absolute path: put it into tools/packages, "
    "or use flytui's own program of that id, with its entry from flytui init --print"
)


def files(roots: SearchRoots) -> Iterator[FoundFile]:
    """Yield the files that flytui does not read: those of the person, user tools, a staged upgrade, and the
    older registry of the project where it has the newer one as well."""
    yield FoundFile(roots.project, PROJECT_TOOLS)
    yield FoundFile(roots.project, STAGED)
    if not roots.project.whole(REGISTRY_FILE).absent:
        yield FoundFile(roots.project, LEGACY_REGISTRY_FILE)
    if roots.home is not None:
        yield from (FoundFile(roots.home, file) for file in (HOME_REGISTRY, HOME_TOOLS))


def read(text: str, shown: str) -> Places:
    """Return the file with its places, and the problems of its syntax."""
    value, source, problems = parsed(text, shown, others=True)
    file = Places(shown, value if isinstance(value, dict) else {}, source.nearest_position)
    file.found.extend(problems)
    if not problems and not isinstance(value, dict):
        file.add("", "config-value", "the file must be an object", 'write {"sidecars": {}}')
    return file


def check(text: str, shown: str) -> list[Diagnostic]:
    """Return the findings of a file."""
    file = read(text, shown)
    if file.found:
        return file.found
    fields: Any = file.value
    if not isinstance(fields.get("sidecars", {}), dict):
        file.add("/sidecars", "config-value", "sidecars must be an object", 'write "sidecars": {}')
    secret_findings(file)
    return file.found


def migrate(roots: SearchRoots, into: Migration) -> None:
    """Add the dialect of the project's own registry, and the entries of the others."""
    own = FoundFile(roots.project, REGISTRY_FILE)
    legacy = FoundFile(roots.project, LEGACY_REGISTRY_FILE)
    text = own.folder.whole(own.relative).text
    if text is not None:
        _complete(read(text, own.shown), into)
    elif (text := usable_text(legacy, check, into)) is not None:
        into.needs_registry = True
        _copy(read(text, legacy.shown), into, "flytui reads tools/external.tools.jsonc in place of this file")
    for found in files(roots):
        text = usable_text(found, check, into)
        if text is None:
            continue
        if found.relative in (HOME_REGISTRY, LEGACY_REGISTRY_FILE):
            _copy(read(text, found.shown), into, "")
        elif found.relative == STAGED:
            why = "Flyflor has staged this upgrade and not applied it: apply it there, or remove the file"
            into.cannot(found.shown, found.shown, why)
        else:
            why = "Flyflor's kernel alone runs its user tools: describe each program in an entry of the "
            into.cannot(found.shown, found.shown, f"{why}registry, with an inputSchema (docs/registry.md)")


def _entries(file: Places) -> Iterator[tuple[str, JsonObject, str]]:
    """Yield id, entry and place of each entry."""
    fields: Any = file.value
    sidecars = fields.get("sidecars", {})
    for sidecar, entry in list(sidecars.items())[:MOST_ENTRIES] if isinstance(sidecars, dict) else ():
        if isinstance(entry, dict):
            yield sidecar, entry, file.at(pointer_join("/sidecars", sidecar))


def _complete(file: Places, into: Migration) -> None:
    """Add what the entries of Flyflor's programs in the project's own registry lack."""
    for sidecar, entry, source in _entries(file):
        name = shorten(sidecar, MOST_NAME)
        if not _is_flyflors(entry) or _high_level(entry):
            continue
        if "dialect" in entry or _describes_itself(entry):
            into.as_is(source, name, "its entry says what its program reads")
            continue
        line = into.line(
            Verdict.REWRITTEN,
            source,
            name,
            f'gets "dialect": "{DIALECT}", so that its program gets the fields it reads; Flyflor ignores it',
            REGISTRY_FILE,
        )
        into.additions.append((sidecar, {"dialect": DIALECT}, line))


def _copy(file: Places, into: Migration, note: str) -> None:
    """Add a copy of each entry of another registry."""
    for sidecar, raw, source in _entries(file):
        name = shorten(sidecar, MOST_NAME)
        if _high_level(raw):
            into.cannot(source, name, "flytui serves its tool itself, over the other tools of the catalog")
            continue
        entry, notes = _copied(raw, into)
        if entry is None:
            into.cannot(source, name, "; ".join(notes).replace("{id}", name))
            continue
        notes += [note] if note else []
        line = into.line(Verdict.REWRITTEN, source, name, "; ".join(notes), REGISTRY_FILE)
        into.entries.append((sidecar, entry, line))


def _copied(raw: JsonObject, into: Migration) -> tuple[JsonObject | None, list[str]]:
    """Return the entry as a registry of flytui has it, and what is said of it; None and why there is none."""
    entry: dict[str, Any] = {key: raw[key] for key in _KEPT if key in raw}
    left_out = [shorten(key, MOST_NAME) for key in raw if key not in (*_KEPT, "cwd")]
    notes = [f"left out: {', '.join(left_out)}"] if left_out else []
    command = _inside(entry.get("command"), into)
    words = [_inside(word, into) for word in entry.get("args", []) if isinstance(word, str)]
    if command is None or None in words:
        return None, [_OUTSIDE]
    if command:
        entry["command"] = command
    if words:
        entry["args"] = words
    secrets = _take_secrets(entry)
    if secrets:
        notes.append(f"the value of {', '.join(secrets)} is not copied: set it where flytui is started")
    values: JsonObject = {key: value for key, value in entry.items() if key != "permissions"}
    if any(is_secret(key, text) for _, key, text in texts_of(values, "", "")):
        return None, ["a value of it looks like a secret, which is not copied: declare it in its permissions"]
    if _is_flyflors(raw) and "dialect" not in entry and not _describes_itself(entry):
        entry["dialect"] = DIALECT
        notes.append(f'written with "dialect": "{DIALECT}"')
    return entry, notes


def _inside(word: Json, into: Migration) -> str | None:
    """Return a word of a command with a path below the project in its relative form; None for an absolute
    path outside of it. A word that is no absolute path stays."""
    text = word if isinstance(word, str) else ""
    if not text.startswith(("/", "~")):
        return text
    below = project_path(text, into.app_root)
    return None if below is None else f"./{below}"


def _take_secrets(entry: dict[str, Any]) -> list[str]:
    """Take the secret variables out of `env`, declare them, and return their names."""
    env = entry.get("env")
    if not isinstance(env, dict):
        return []
    secrets = [
        name
        for name, value in env.items()
        if isinstance(value, str) and (looks_secret(name) or is_secret(name, value))
    ]
    if secrets:
        entry["env"] = {name: value for name, value in env.items() if name not in secrets}
        permissions = entry.get("permissions")
        declared = permissions if isinstance(permissions, dict) else {}
        entry["permissions"] = {**declared, "secrets": [*declared.get("secrets", []), *secrets]}
    return secrets


def _is_flyflors(entry: JsonObject) -> bool:
    """Return whether the entry starts a program of Flyflor, by the names that its installers write."""
    args = entry.get("args", [])
    words = [entry.get("command"), *(args if isinstance(args, list) else [])]
    names = [word.rpartition("/")[2] for word in words if isinstance(word, str)]
    return any(name in _STARTERS or name.endswith(".sidecar.ts") for name in names)


def _describes_itself(entry: JsonObject) -> bool:
    """Return whether an entry gives a schema for one of its tools."""
    tools = entry.get("tools", [])
    return isinstance(tools, list) and any(isinstance(tool, dict) and "inputSchema" in tool for tool in tools)


def _high_level(entry: JsonObject) -> bool:
    tools = entry.get("tools", [])
    names = [tool for tool in tools if isinstance(tool, str)] if isinstance(tools, list) else []
    return bool(names) and all(name in HIGH_LEVEL for name in names)


FLYFLOR = OtherSystem("flyflor", "Flyflor", NAMES, files, check, migrate)
