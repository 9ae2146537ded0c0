"""The checks of `flytui doctor` about agents' programs: which are here, and which reach this root."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from flycore.discovery.agent_clients.codex_trust import why_codex_runs_no_hook
from flycore.discovery.agent_clients.edit import current, read_value
from flycore.discovery.agent_clients.record import written_store
from flycore.discovery.agent_clients.table import CLIENTS, AgentClient, Connection, Part
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
            if client.id == "codex":
                yield from _check_codex_hook(places, home, environ)


def _check_codex_hook(places: RootPaths, home: str, environ: Mapping[str, str]) -> Iterator[Check]:
    """Report a hook that Codex does not run: its tools are then not asked about, and nothing says so."""
    why = why_codex_runs_no_hook(places.app_root, Path(home), environ)
    if why:
        yield Check(
            name=NAME,
            state=CheckState.WARN,
            message=f"Codex does not run flytui's hook yet: {why}",
            fix="start codex in this folder, enter /hooks, and trust the hook of flytui",
        )


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
    changed = _difference_from_written(client, entry, places, home)
    if changed:
        return Check(
            name=NAME,
            state=CheckState.WARN,
            message=f"{client.title}: {changed}",
            fix=f"flytui connect {client.id}",
        )
    return Check(name=NAME, state=CheckState.OK, message=f"{client.title} is connected by {shown}")


def _difference_from_written(client: AgentClient, entry: Json, places: RootPaths, home: str) -> str:
    """Return how what `flytui connect` wrote differs from what it would write today, or what of it is gone;
    empty where all is as it was written, and for an entry that a person wrote or has changed."""
    records = tuple(one for one in written_store(places.clients_file).value if one.client == client.id)
    for record in records:
        anchor = Path(home) if record.in_home else places.app_root
        value = read_value(read_text(anchor, record.path, record.file.shown)[0] or "", record.form)
        for wanted in record.wanted:
            if wanted.part is not Part.SERVER and (value is None or current(value, wanted) != wanted.value):
                return f"the {wanted.part} that was written to {record.file.shown} is no longer there"
    written = next((one for record in records for one in record.wanted if one.part is Part.SERVER), None)
    if written is None or written.value != entry or not (words := _words(entry)):
        return ""
    # The program is the one that was found when the entry was written. Of some clients, the permission is a
    # member of the entry, and not recorded as a part of its own.
    connection = Connection(words[0], str(places.app_root))
    today = [
        one.value
        for parts in (frozenset({Part.SERVER}), frozenset({Part.SERVER, Part.PERMISSION}))
        for one in client.wanted(connection, parts)
        if one.part is Part.SERVER
    ]
    return "" if entry in today else f"the entry in {written.file.shown} is that of an earlier flytui"


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
