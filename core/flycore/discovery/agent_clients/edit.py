"""Adds values to a client's configuration file and takes them back, without a change of anything else.

JSON and JSONC files are edited by spans, and keep their comments. In TOML and YAML a block is added as text.
Every edit is checked: the new text is read again, and has the values that were wanted and no other change.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import NamedTuple

from flycore.discovery.agent_clients.table import SERVER, Form, Wanted, toml_text
from flycore.model.json import Json, JsonObject, pointer_join
from flycore.registry.jsonc.edit import Change, edited, insert_last, remove
from flycore.registry.jsonc.parse import parse_jsonc
from flycore.registry.jsonc.spans import scan
from flycore.registry.yaml_text import read_yaml


class Piece(NamedTuple):
    """A text that an edit inserted, with its offset in the text after the edit."""

    at: int
    text: str


class ClientEdit(NamedTuple):
    """The text after an edit, and what was inserted; or why there is none."""

    text: str = ""
    pieces: tuple[Piece, ...] = ()
    why_not: str = ""


class _CannotEditError(Exception):
    """The text cannot be edited; the message says why."""


def read_value(text: str, form: Form) -> JsonObject | None:
    """Return the value of a file, None where it cannot be read or is no object. An empty file is one."""
    if not text.strip():
        return {}
    value: Json
    if form is Form.JSONC:
        value, problem = parse_jsonc(text, "")
        return value if problem is None and isinstance(value, dict) else None
    if form is Form.TOML:
        try:
            return tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError):
            return None
    found = read_yaml(text, "")
    value = found.value
    return value if not found.problems and isinstance(value, dict) else None


def current(value: JsonObject, wanted: Wanted) -> Json:
    """Return what the file has now at the place of a value: the value itself where it is the item of a list,
    and None where there is nothing."""
    place: Json = value
    for step in wanted.pointer.split("/")[1:]:
        if not isinstance(place, dict) or step not in place:
            return None
        place = place[step]
    if wanted.is_item:
        return wanted.value if isinstance(place, list) and wanted.value in place else None
    return place


def add_values(text: str, form: Form, wanted: tuple[Wanted, ...]) -> ClientEdit:
    """Return the text with all of the values, whose places must be free."""
    made = ClientEdit(text or ("{}\n" if form is Form.JSONC else ""))
    for one in wanted:
        try:
            step = _add(made.text, form, one)
        except _CannotEditError as refused:
            return ClientEdit(why_not=str(refused))
        made = ClientEdit(step.text, (*_moved(made.pieces, step.pieces), *step.pieces))
    return made


def _moved(before: tuple[Piece, ...], inserted: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Return the pieces of earlier edits at their offsets after a further one, which may lie within them."""
    moved: list[Piece] = []
    for piece in before:
        at, parts = piece.at, [piece]
        for new in sorted(inserted):
            if new.at <= at:
                at += len(new.text)
                parts = [Piece(part.at + len(new.text), part.text) for part in parts]
            elif new.at < parts[-1].at + len(parts[-1].text):
                last = parts.pop()
                cut = new.at - last.at
                parts += [Piece(last.at, last.text[:cut]), Piece(new.at + len(new.text), last.text[cut:])]
        moved += [part for part in parts if part.text]
    return tuple(moved)


def take_back(text: str, pieces: tuple[Piece, ...]) -> str | None:
    """Return the text without the pieces at exactly their offsets; None where they are not there."""
    for at, piece in sorted(pieces, reverse=True):
        if not text.startswith(piece, at):
            return None
        text = text[:at] + text[at + len(piece) :]
    return text


def remove_values(text: str, form: Form, wanted: tuple[Wanted, ...], pieces: tuple[Piece, ...]) -> ClientEdit:
    """Return the text without the values, where the file was changed after they were added.

    A value that is no longer as it was added stays, and is the reason why nothing is removed.
    """
    if form is not Form.JSONC:
        for piece in sorted(pieces, reverse=True):
            if text.count(piece.text) != 1:
                return ClientEdit(why_not="the entry was changed by hand: remove it by hand, too")
            text = text.replace(piece.text, "")
        return ClientEdit(text)
    for one in wanted:
        try:
            text = _remove_member(text, one)
        except _CannotEditError as refused:
            return ClientEdit(why_not=str(refused))
    return ClientEdit(text)


def _remove_member(text: str, wanted: Wanted) -> str:
    value = read_value(text, Form.JSONC)
    if value is None:
        raise _CannotEditError("the file cannot be read")
    now = current(value, wanted)
    if now is None and not (wanted.is_item and _names_flytui(value, wanted)):
        return text
    if now != wanted.value:
        raise _CannotEditError(f"{wanted.pointer} was changed by hand: remove it by hand, too")
    pointer, key = wanted.pointer, wanted.pointer.rpartition("/")[2]
    holder = _holder(value, wanted)
    if isinstance(holder, list):
        place = holder.index(wanted.value)
        pointer = pointer_join(pointer, str(place))
        del holder[place]
    else:
        del holder[key]
    removed = edited(text, remove(scan(text), pointer), value)
    if removed is None:
        raise _CannotEditError(f"{pointer} cannot be removed without changing something else")
    return removed


def _names_flytui(value: JsonObject, wanted: Wanted) -> bool:
    """Return whether the list has another item of flytui's than the one that was added."""
    try:
        return SERVER in json.dumps(_holder(value, wanted))
    except _CannotEditError:
        return False


def _holder(value: JsonObject, wanted: Wanted) -> dict[str, Json] | list[Json]:
    steps = wanted.pointer.split("/")[1:]
    place: Json = value
    for step in steps if wanted.is_item else steps[:-1]:
        place = place[step] if isinstance(place, dict) else None
    if not isinstance(place, dict | list):
        raise _CannotEditError("the file has another form")
    return place


def _add(text: str, form: Form, wanted: Wanted) -> ClientEdit:
    value = read_value(text, form)
    if value is None:
        raise _CannotEditError("it cannot be read as it is: correct it first")
    if current(value, wanted) is not None:
        raise _CannotEditError(f"it has another entry at {wanted.pointer}: remove that first")
    if form is Form.JSONC:
        return _add_member(text, value, wanted)
    block = _toml_block(text, wanted) if form is Form.TOML else _yaml_block(text, wanted)
    made = text[: block.at] + block.text + text[block.at :]
    if read_value(made, form) != _with(value, wanted.pointer.split("/")[1:], wanted):
        raise _CannotEditError("the entry cannot be added without changing something else: add it by hand")
    return ClientEdit(made, (block,))


def _add_member(text: str, value: JsonObject, wanted: Wanted) -> ClientEdit:
    steps = wanted.pointer.split("/")[1:]
    index = scan(text)
    if index.duplicates:
        raise _CannotEditError("a key is written twice: correct it first")
    place: Json = value
    at, depth = "", 0
    for step in steps:
        if not isinstance(place, dict):
            raise _CannotEditError(f"{at} is not an object")
        if step not in place:
            break
        place, at, depth = place[step], pointer_join(at, step), depth + 1
    if depth == len(steps):
        if not isinstance(place, list):
            raise _CannotEditError(f"{at} is not a list")
        changes = insert_last(index, at, wanted.value, one_line=100)
    else:
        leaf: Json = [wanted.value] if wanted.is_item else wanted.value
        for step in reversed(steps[depth + 1 :]):
            leaf = {step: leaf}
        changes = insert_last(index, at, leaf, key=steps[depth], one_line=60)
    after = edited(text, changes, _with(value, steps, wanted))
    if after is None:
        raise _CannotEditError("the entry cannot be added without changing something else: add it by hand")
    return ClientEdit(after, _pieces(changes))


def _pieces(changes: list[Change]) -> tuple[Piece, ...]:
    """Return what the changes insert. Raises _CannotEditError where one of them replaces something, which
    could not be taken back."""
    pieces: list[Piece] = []
    grown = 0
    for (start, end), text in sorted(changes, key=lambda change: change.span):
        if start != end:
            raise _CannotEditError(
                "the entry cannot be added without changing something else: add it by hand"
            )
        pieces.append(Piece(start + grown, text))
        grown += len(text)
    return tuple(pieces)


def _with(value: JsonObject, steps: list[str], wanted: Wanted) -> JsonObject:
    """Return the object with the value at its place."""
    first, *rest = steps
    below = value.get(first)
    if rest:
        return {**value, first: _with(below if isinstance(below, dict) else {}, rest, wanted)}
    if wanted.is_item:
        return {**value, first: [*(below if isinstance(below, list) else []), wanted.value]}
    return {**value, first: wanted.value}


def _toml_block(text: str, wanted: Wanted) -> Piece:
    """Return the table as a block at the end of the file."""
    name = ".".join(wanted.pointer.split("/")[1:])
    lines = _toml_table(name, wanted.value, is_item=wanted.is_item)
    return Piece(len(text), _separator(text) + "\n".join(lines) + "\n")


def _separator(text: str) -> str:
    if not text:
        return ""
    return "\n" if text.endswith("\n") else "\n\n"


def _toml_table(name: str, value: Json, *, is_item: bool) -> list[str]:
    members = value if isinstance(value, dict) else {}
    lines = [f"[[{name}]]" if is_item else f"[{name}]"]
    tables: list[str] = []
    for key, member in members.items():
        if isinstance(member, list) and member and isinstance(member[0], dict):
            for item in member:
                tables += ["", *_toml_table(f"{name}.{key}", item, is_item=True)]
        elif isinstance(member, dict):
            tables += ["", *_toml_table(f"{name}.{key}", member, is_item=False)]
        else:
            lines.append(f"{key} = {_flow(member)}")
    return [*lines, *tables]


def _flow(value: Json) -> str:
    """Return a text, a number, a boolean or a list of them in a form that TOML and YAML both read."""
    if isinstance(value, str):
        return toml_text(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    return json.dumps(value)


def _yaml_block(text: str, wanted: Wanted) -> Piece:
    """Return the members as a block below the line of their holder, or at the end with a new holder."""
    holder, key = wanted.pointer.split("/")[1:]
    line = re.search(rf"^{re.escape(holder)}:[ \t]*(?:#[^\n]*)?(?:\n|\Z)", text, re.MULTILINE)
    if line is None:
        rows = [f"{holder}:", *_yaml_rows(key, wanted.value, "  ")]
        return Piece(len(text), ("" if not text or text.endswith("\n") else "\n") + "\n".join(rows) + "\n")
    first = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*([ ]+)[^\s#]").match(text, line.end())
    rows = _yaml_rows(key, wanted.value, first.group(1) if first is not None else "  ")
    return Piece(line.end(), ("" if line.group().endswith("\n") else "\n") + "\n".join(rows) + "\n")


def _yaml_rows(key: str, value: Json, indent: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{indent}{key}: {_flow(value)}"]
    rows = [f"{indent}{key}:"]
    for name, member in value.items():
        rows += _yaml_rows(name, member, f"{indent}  ")
    return rows


def snippet(form: Form, wanted: tuple[Wanted, ...]) -> str:
    """Return the text of a file that has nothing but these values."""
    if form is Form.JSONC:
        value: JsonObject = {}
        for one in wanted:
            value = _with(value, one.pointer.split("/")[1:], one)
        return json.dumps(value, indent=2).replace("\x7f", "\\u007f")
    return add_values("", form, wanted).text.rstrip("\n")
