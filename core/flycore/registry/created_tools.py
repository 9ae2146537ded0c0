"""Tools that agents made: manifests in a folder of flytui's own, apart from those of the project.

Such a manifest waits for a person's review like every entry that nobody trusts. Whatever it says, each call
of its tool is asked about, and its permissions stay within a limit of their own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from flycore.model.json import Json, JsonObject, canonical_json
from flycore.model.sidecar import SidecarEntry, ToolClaim
from flycore.registry.jsonc.parse import parse_jsonc
from flycore.registry.paths import MANIFEST_FILE, TOOLS_CONFIG_FILE, RootPaths
from flycore.registry.read_file import read_text
from flycore.registry.yaml_text import MAX_YAML_BYTES, read_yaml
from flycore.store.json_store import Store
from flysafe.atomic import private_folder, write_atomic

CREATORS_FILE = "creators.json"
MAX_CREATORS_BYTES = 1_048_576
PROJECT_LIMIT_FILES = (TOOLS_CONFIG_FILE, ".glee/config.yml")
"""Files of a project that may lower the limit for tools that agents make."""
DEFAULT_LIMIT: JsonObject = {"network": True, "fs": {"read": ["."], "write": []}, "secrets": []}
"""The most that such a tool may be permitted where the user's settings name no limit."""
MOST_CREATED = 64
"""Tools of agents that one root keeps, so that no agent fills the disk or a person's list."""
LARGEST_DEFINITION = 65_536
"""Bytes of one definition. A person has to read it."""
MOST_WORDS = 256
"""Paths or names in one list of a limit."""
UNKNOWN_CREATOR = "an agent that is not known any more"
REASON = "an agent made this tool"


def definition_text(definition: JsonObject | str) -> str:
    """Return the text of a manifest: a text as it is, an object as JSON, which is YAML, too. Raises
    ValueError for one that is too large, or that JSON programs do not read alike."""
    text = definition if isinstance(definition, str) else ""
    if not isinstance(definition, str):
        canonical_json(definition)  # raises ValueError for what JSON programs do not read alike
        text = json.dumps(definition, ensure_ascii=False, indent=2) + "\n"
    if len(text.encode("utf-8", "replace")) > LARGEST_DEFINITION:
        raise ValueError(f"a definition has at most {LARGEST_DEFINITION // 1024} KiB")
    return text


def as_created(entry: SidecarEntry, creator: str) -> SidecarEntry:
    """Return the entry of a manifest as that of a tool that an agent made: each call of it is asked about."""
    reason = REASON
    tools: list[ToolClaim] = []
    for claim in entry.tools:
        spec = claim.spec
        if spec is not None:
            stated = spec.get("approval")
            own = stated.get("reason") if isinstance(stated, dict) else None
            reason = f"{REASON}: {own}" if isinstance(own, str) and own else REASON
            spec = {**spec, "approval": {"required": True, "reason": reason}}
        tools.append(ToolClaim(name=claim.name, spec=spec))
    return msgspec.structs.replace(entry, creator=creator or UNKNOWN_CREATOR, tools=tuple(tools))


def creators(places: RootPaths) -> Mapping[str, str]:
    """Return who made each tool, by the tool's name; empty where that cannot be read."""
    return _creators_store(places).value


def _creators_store(places: RootPaths) -> Store[dict[str, str]]:
    return Store[dict[str, str]](places.created_dir / CREATORS_FILE, dict[str, str], {}, MAX_CREATORS_BYTES)


def write_created(places: RootPaths, name: str, text: str, creator: str) -> None:
    """Write a manifest and its creator. Raises OSError."""
    folder = places.created_dir / name
    private_folder(places.created_dir)
    private_folder(folder)
    # The creator first: a manifest is never there without one.
    store = _creators_store(places)
    store.write({**store.value, name: creator})
    write_atomic(folder / MANIFEST_FILE, text.encode())


def created_names(places: RootPaths) -> frozenset[str]:
    """Return the names of the tools that agents have made."""
    try:
        names = os.listdir(places.created_dir)
    except OSError:
        return frozenset()
    return frozenset(name for name in names if (places.created_dir / name).is_dir())


def created_limits(user: JsonObject | None, project: tuple[JsonObject, ...]) -> tuple[JsonObject, ...]:
    """Return all limits of a tool that an agent made: that of the user's settings, else a narrow one, and
    every one that the project's files set."""
    return (DEFAULT_LIMIT if user is None else user, *project)


def limit_faults(limit: Json) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with a limit of a project's file: the pointer below it, a sentence, and what to
    write. A limit with a fault permits less than its author meant, never more."""
    if not isinstance(limit, dict):
        yield "", "max_permissions must be a mapping", "write network: false below it"
        return
    if not isinstance(limit.get("network", True), bool):
        yield "/network", "network must be true or false", "write false"
    paths = limit.get("fs", {})
    if not isinstance(paths, dict):
        yield "/fs", "fs must be a mapping", "write read and write below it, each a list of paths"
        paths = {}
    for pointer, words in (
        ("/fs/read", paths.get("read", [])),
        ("/fs/write", paths.get("write", [])),
        ("/secrets", limit.get("secrets", [])),
    ):
        listed = words if isinstance(words, list) and len(words) <= MOST_WORDS else [None]
        if not all(isinstance(word, str) and word for word in listed):
            yield pointer, f"{pointer.rpartition('/')[2]} must be a list of texts", "write [] for nothing"


def project_limits(app_root: Path) -> tuple[JsonObject, ...]:
    """Return the limits that files of the project set. One that cannot be read permits nothing."""
    found: list[JsonObject] = []
    for relative in PROJECT_LIMIT_FILES:
        text, _, problem = read_text(app_root, relative, relative, MAX_YAML_BYTES)
        if text is None and problem is None:
            continue
        limit = _limit_in(text or "", relative) if problem is None else {}
        found += [] if limit is None else [limit]
    return tuple(found)


def _limit_in(text: str, shown: str) -> JsonObject | None:
    """Return the limit of one file; None where it sets none, an empty one where it cannot be read."""
    if shown.endswith(".yml"):
        read = read_yaml(text, shown)
        value, broken = read.value, bool(read.problems)
    else:
        value, problem = parse_jsonc(text, shown)
        broken = problem is not None
    if broken:
        return {}
    security = value.get("security") if isinstance(value, dict) else None
    if security is None:
        return None
    if not isinstance(security, dict):
        return {}
    limit = security.get("max_permissions")
    if limit is None:
        return None if "max_permissions" not in security else {}
    return limit if isinstance(limit, dict) else {}
