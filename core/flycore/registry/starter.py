"""The starter registry: an entry for each use of the bundled sidecars, written for this machine.

`starter.jsonc` has the text of all entries. Chosen ones become a new registry, or are added to an existing
one by an edit that leaves every other byte as it is.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from flycore.model.json import JsonObject, digest, pointer_join
from flycore.model.starter import StarterPlan
from flycore.registry.edits import (
    SIDECARS,
    EntryEdit,
    add_to_text,
    read_for_edit,
    starter_text,
    write_edited,
)
from flycore.registry.jsonc.edit import spelled
from flycore.registry.jsonc.parse import parse_jsonc
from flycore.registry.jsonc.spans import scan
from flycore.registry.paths import REGISTRY_FILE, RootPaths
from flycore.registry.published_schemas import write_schemas
from flysafe.atomic import create_beneath

LANGUAGE_SERVERS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("pylsp", (), ("pyproject.toml", "setup.py", "requirements.txt")),
    ("pyright-langserver", ("--stdio",), ("pyproject.toml", "setup.py", "requirements.txt")),
    ("rust-analyzer", (), ("Cargo.toml",)),
    ("gopls", (), ("go.mod",)),
    ("typescript-language-server", ("--stdio",), ("package.json", "tsconfig.json")),
    ("clangd", (), ("compile_commands.json", "CMakeLists.txt")),
)
"""Known language servers: the program, its arguments, and files of the projects that it is for."""
_NO_SERVER = re.compile(r'// ("delegates": )\{"lsp": .*\},$', re.MULTILINE)
"""The line of the starter text in which a person names a language server."""


class StarterPiece(NamedTuple):
    """One entry of the starter text."""

    id: str
    text: str
    """Its comments and its member, without the comma behind it, indented as in the starter text."""
    value: JsonObject


class StarterEdit(NamedTuple):
    """The change of the registry file that adds entries."""

    plan: StarterPlan
    relative: str = ""
    before: str = ""
    data: bytes | None = None
    """The bytes of the file; None where there is none."""
    after: str = ""


def starter_pieces(root: Path, environ: Mapping[str, str]) -> tuple[StarterPiece, ...]:
    """Return the entries of the starter text, in its order, with the language server of this machine."""
    text = _for_machine(root, environ)
    index = scan(text)
    pieces: list[StarterPiece] = []
    for sidecar, entry in _sidecars(text, REGISTRY_FILE).items():
        pointer = pointer_join(SIDECARS, sidecar)
        start = _first_comment(text, text.rfind("\n", 0, index.values[pointer].start) + 1)
        pieces.append(StarterPiece(sidecar, text[start : index.values[pointer].end], entry))
    return tuple(pieces)


def registry_of(pieces: Iterable[StarterPiece]) -> str:
    """Return the text of a registry that has these entries alone. All of them give the starter text."""
    text = starter_text()
    entries = [span for pointer, span in scan(text).values.items() if pointer.rpartition("/")[0] == SIDECARS]
    start = _first_comment(text, text.rfind("\n", 0, min(entries).start) + 1)
    return text[:start] + ",\n\n".join(piece.text for piece in pieces) + text[max(entries).end :]


def plan_starter(places: RootPaths, environ: Mapping[str, str], sidecars: Collection[str]) -> StarterEdit:
    """Return the change that adds these entries of the starter text to the project's registry."""
    pieces = [piece for piece in starter_pieces(places.app_root, environ) if piece.id in sidecars]
    relative, text, data, why_not = read_for_edit(places)
    if why_not:
        return StarterEdit(StarterPlan(file=relative, why_not=why_not))
    if text is None:
        after = registry_of(pieces)
        plan = StarterPlan(
            file=relative,
            sidecars=tuple(piece.id for piece in pieces),
            text=after,
            digest=digest({"before": None, "after": after}),
        )
        return StarterEdit(plan, relative, "", None, after)
    present = registered(text, relative)
    missing = [piece for piece in pieces if piece.id not in present]
    made = add_pieces(text, missing, relative)
    if made.why_not:
        return StarterEdit(StarterPlan(file=relative, why_not=made.why_not))
    plan = StarterPlan(
        file=relative,
        sidecars=tuple(piece.id for piece in missing),
        difference=_difference(text, made.text, relative),
        digest=digest({"before": text, "after": made.text}),
    )
    return StarterEdit(plan, relative, text, data, made.text)


def write_plan(places: RootPaths, edit: StarterEdit) -> str:
    """Write the change. Return why it was not written, else nothing.

    The schemas that the `$schema` of a new registry names are written, too, where that is possible: only an
    editor misses them.
    """
    if edit.plan.why_not:
        return edit.plan.why_not
    if edit.data is not None:
        made = EntryEdit(text=edit.after)
        return write_edited(
            places.app_root, edit.relative, edit.relative, edit.before, edit.data, made
        ).why_not
    try:
        create_beneath(places.app_root, REGISTRY_FILE, edit.after.encode("utf-8"))
    except FileExistsError:  # somebody made it after the plan
        return f"{REGISTRY_FILE} exists by now: look at the change again"
    except OSError as error:
        return f"{REGISTRY_FILE} cannot be written: {error.strerror or error}"
    write_schemas(places.app_root)
    return ""


def registered(text: str, shown: str) -> frozenset[str]:
    """Return the ids of the entries that the text of a registry has; none where it cannot be read."""
    return frozenset(_sidecars(text, shown))


def _sidecars(text: str, shown: str) -> dict[str, JsonObject]:
    value, _ = parse_jsonc(text, shown)
    sidecars = value.get("sidecars") if isinstance(value, dict) else None
    entries = sidecars.items() if isinstance(sidecars, dict) else ()
    return {sidecar: entry for sidecar, entry in entries if isinstance(entry, dict)}


def add_pieces(text: str, pieces: Iterable[StarterPiece], shown: str) -> EntryEdit:
    """Return the text of a registry with these entries, and their comments, as the last ones."""
    for piece in pieces:
        made = add_to_text(text, piece.id, piece.value, shown, lines=_dedented(piece.text))
        if made.why_not:
            return made
        text = made.text
    return EntryEdit(text=text)


def find_language_server(root: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command of a language server on PATH: the one for this project's files, else the first."""
    path = os.pathsep.join(filter(os.path.isabs, environ.get("PATH", "").split(os.pathsep)))
    found = [server for server in LANGUAGE_SERVERS if shutil.which(server[0], path=path)]
    fitting = [server for server in found if any((root / marker).is_file() for marker in server[2])]
    return next(((program, *args) for program, args, _ in (*fitting, *found)), ())


def _for_machine(root: Path, environ: Mapping[str, str]) -> str:
    """The starter text; the language server that is found here is named in it."""
    server = find_language_server(root, environ)
    if not server:
        return starter_text()
    program, *args = server
    delegate: JsonObject = {"command": program, "args": [*args]} if args else {"command": program}
    named = spelled({"lsp": delegate})
    return _NO_SERVER.sub(lambda found: f"{found[1]}{named},", starter_text(), count=1)


def _first_comment(text: str, line: int) -> int:
    """The offset of the first line of the comments directly above the line that begins at `line`."""
    while line:
        above = text.rfind("\n", 0, line - 1) + 1
        if not text[above:line].lstrip().startswith("//"):
            break
        line = above
    return line


def _dedented(text: str) -> tuple[str, ...]:
    lines = text.split("\n")
    margin = len(lines[0]) - len(lines[0].lstrip(" "))
    return tuple(line[margin:] if not line[:margin].strip() else line for line in lines)


def _difference(before: str, after: str, shown: str) -> tuple[str, ...]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), shown, shown, lineterm="")
    return tuple(lines)
