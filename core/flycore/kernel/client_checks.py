"""The checks of `flytui doctor` about agents' programs: which are here, and which reach this root."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from flycore.discovery.agent_clients.edit import current, read_value
from flycore.discovery.agent_clients.table import CLIENTS, AgentClient, Connection
from flycore.model.diagnostics import Check, CheckState
from flycore.model.json import Json
from flycore.registry.paths import RootPaths
from flycore.registry.read_file import read_text

NAME = "client"


def check_clients(places: RootPaths, environ: Mapping[str, str]) -> Iterator[Check]:
    """Check every program of the table that is here. Starts none of them."""
    home = environ.get("HOME", "")
    for client in CLIENTS:
        if _is_here(client, home, environ.get("PATH", "")):
            yield _check(client, places, home, environ)


def _is_here(client: AgentClient, home: str, path: str) -> bool:
    if any(shutil.which(program, path=path) for program in client.programs):
        return True
    return bool(home) and any(os.path.exists(os.path.join(home, trace)) for trace in client.traces)


def _check(client: AgentClient, places: RootPaths, home: str, environ: Mapping[str, str]) -> Check:
    wanted = client.server(Connection("flytui", str(places.app_root)))
    anchor = Path(home) if wanted.file.in_home else places.app_root
    shown = wanted.file.shown
    text, _, problem = read_text(anchor, wanted.file.path, shown)
    value = read_value(text or "", wanted.file.form)
    if problem is not None or value is None:
        return Check(name=NAME, state=CheckState.WARN, message=f"{client.title}: {shown} cannot be read")
    entry = current(value, wanted)
    if entry is None:
        return Check(
            name=NAME,
            state=CheckState.OK,
            message=f"{client.title} is here, and not connected by {shown}",
            fix=f"flytui connect {client.id}",
        )
    fault = _fault(entry, places, environ)
    if fault:
        return Check(
            name=NAME,
            state=CheckState.WARN,
            message=f"{client.title}: the entry in {shown} {fault}",
            fix=f"flytui connect {client.id} --remove, or remove it by hand; then flytui connect {client.id}",
        )
    return Check(name=NAME, state=CheckState.OK, message=f"{client.title} is connected by {shown}")


def _fault(entry: Json, places: RootPaths, environ: Mapping[str, str]) -> str:
    """Return what is out of date about an entry; empty where nothing is."""
    words = _words(entry)
    if not words:
        has_address = isinstance(entry, dict) and any(
            isinstance(entry.get(key), str) for key in ("url", "httpUrl", "serverUrl", "uri")
        )
        return "" if has_address else "names neither a command nor an address"
    program = words[0] if "/" not in words[0] else os.path.join(places.app_root, words[0])
    if shutil.which(program, path=environ.get("PATH", "")) is None:
        return f"starts {words[0]}, which is not there"
    if "mcp" not in words[1:]:
        return "does not start flytui mcp"
    named = words[words.index("--root") + 1 :][:1] if "--root" in words else []
    if named and not named[0].startswith("${"):
        root = os.path.realpath(os.path.join(places.app_root, named[0]))
        if root != os.path.realpath(places.app_root):
            return "is about another root"
    return ""


def _words(entry: Json) -> list[str]:
    if not isinstance(entry, dict):
        return []
    words: list[str] = []
    for key in ("command", "cmd", "args"):
        member = entry.get(key)
        listed = member if isinstance(member, list) else [member]
        words += [word for word in listed if isinstance(word, str)]
    return words
