"""What stands in a form's fields, as values, and the way from a JSON value into them. Pure.

Every JSON value has a draft for every field: one that the field cannot hold is kept as JSON text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from flycore.model.json import Json, escape_key
from flysafe.codepoints import CLOSE, OPEN
from flytui.console.approvals.edit import spelled_out
from flytui.console.form.fields import MISSING, Field, Kind, Missing

LONG_TEXT = 200
MOST_ITEMS = 50
"""An array with more is written as JSON."""
_TOKEN = re.compile(rf"{OPEN}U\+([0-9A-F]{{4,6}}){CLOSE}")


class Step(Enum):
    """Steps of a path that are no steps of a JSON pointer."""

    BRANCH = auto()
    """Into the chosen branch of a union."""
    REST = auto()
    """The keys of an object that no field is for."""


Path = tuple[str | int | Step, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """Text. Empty text is no value, unless `given`."""

    text: str = ""
    given: bool = False
    as_json: bool = False
    """Whether the text is JSON."""
    long: bool = False
    """Whether it came with line ends, or with more characters than a line shows: written on several lines."""


@dataclass(frozen=True, slots=True)
class Pick:
    """An option by its place, -1 for none."""

    at: int = -1


@dataclass(frozen=True, slots=True)
class Group:
    """An object: its fields in their order, and other keys as JSON text."""

    parts: tuple[tuple[str, Draft], ...] = ()
    rest: Leaf = Leaf(as_json=True)
    given: bool = False
    """Whether it is sent even where nothing in it was written."""


@dataclass(frozen=True, slots=True)
class Items:
    """An array."""

    items: tuple[Draft, ...] = ()
    given: bool = False


@dataclass(frozen=True, slots=True)
class Way:
    """A branch by its place, -1 for none, and what stands in it."""

    at: int = -1
    inner: Draft = Leaf()


Draft = Leaf | Pick | Group | Items | Way


def fresh(field: Field) -> Draft:
    """What a new form has in the field: its default; a required constant is chosen already."""
    if not isinstance(field.default, Missing):
        return draft_of(field, field.default)
    match field.kind:
        case Kind.CHOICE:
            return Pick(0 if field.required and len(field.options) == 1 else -1)
        case Kind.OBJECT:
            return Group(tuple((part.name, fresh(part)) for part in field.fields))
        case Kind.ARRAY:
            return Items()
        case Kind.UNION:
            return chosen(field, 0) if field.required else Way()
        case _:
            return Leaf(as_json=field.kind is Kind.JSON)


def chosen(field: Field, at: int) -> Way:
    """A branch, nothing written in it yet."""
    return Way(at, fresh(field.branches[at])) if at >= 0 else Way()


def draft_of(field: Field, value: Json) -> Draft:
    """The value in the field."""
    match field.kind:
        case Kind.TEXT if isinstance(value, str):
            return Leaf(value, given=not value, long="\n" in value or len(value) > LONG_TEXT)
        case Kind.NUMBER if isinstance(value, int | float) and not isinstance(value, bool):
            return Leaf(json.dumps(value))
        case Kind.CHOICE:
            at = _place(field.options, value)
            return Pick(at) if at >= 0 else written(value)
        case Kind.OBJECT if isinstance(value, dict):
            return _group_of(field, value)
        case Kind.ARRAY if isinstance(value, list) and len(value) <= MOST_ITEMS and field.item is not None:
            item = field.item
            return Items(tuple(draft_of(item, each) for each in value), given=not value)
        case Kind.UNION:
            return _way_of(field, value)
    return written(value)


def written(value: Json) -> Leaf:
    """The value as JSON text, all of which can be seen."""
    return Leaf(spelled_out(json.dumps(value, indent=2, ensure_ascii=False)), as_json=True)


def untouched(field: Field, draft: Group) -> bool:
    """Whether a group is as a new form has it."""
    return draft.parts == tuple((part.name, fresh(part)) for part in field.fields) and not draft.rest.text


def at_path(draft: Draft, path: Path) -> Draft | None:
    """What stands there; None where nothing does any more."""
    for step in path:
        found: Draft | None = None
        match draft, step:
            case Group(), Step.REST:
                found = draft.rest
            case Group(), str():
                found = next((part for name, part in draft.parts if name == step), None)
            case Items(), int() if step < len(draft.items):
                found = draft.items[step]
            case Way(), Step.BRANCH if draft.at >= 0:
                found = draft.inner
        if found is None:
            return None
        draft = found
    return draft


def put(draft: Draft, path: Path, new: Draft) -> Draft:
    """The draft with `new` at the path; unchanged where the path leads nowhere."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    match draft:
        case Group() if step is Step.REST:
            return replace(draft, rest=new) if isinstance(new, Leaf) else draft
        case Group():
            parts = ((name, put(part, rest, new) if name == step else part) for name, part in draft.parts)
            return replace(draft, parts=tuple(parts))
        case Items():
            items = (put(item, rest, new) if at == step else item for at, item in enumerate(draft.items))
            return replace(draft, items=tuple(items))
        case Way() if step is Step.BRANCH:
            return replace(draft, inner=put(draft.inner, rest, new))
    return draft


def pointer_of(path: Path) -> str:
    """The path as a JSON pointer into the input."""
    return "".join(f"/{escape_key(step)}" for step in path if not isinstance(step, Step))


def plain_of(text: str) -> str:
    """The text that `safe_text` made into what is shown: every token as the character it names."""
    return _TOKEN.sub(lambda found: _character(found[0], int(found[1], 16)), text)


def _character(token: str, number: int) -> str:
    return chr(number) if number <= 0x10FFFF else token


def _place(options: Sequence[Json], value: Json) -> int:
    return next((at for at, option in enumerate(options) if _same(option, value)), -1)


def _same(one: Json, other: Json) -> bool:
    """Equal in JSON's eyes and in Python's spelling: 1 is not true here, nor 1.0."""
    return bool(one == other) and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _group_of(field: Field, value: dict[str, Json]) -> Group:
    names = {part.name for part in field.fields}
    parts = tuple(
        (part.name, draft_of(part, value[part.name]) if part.name in value else _nothing(part))
        for part in field.fields
    )
    others = {name: other for name, other in value.items() if name not in names}
    group = Group(parts, written(others) if others else Leaf(as_json=True))
    return replace(group, given=not value or untouched(field, group))


def _nothing(field: Field) -> Draft:
    """The field of a value that has nothing for it: not even the default, nor an empty object or array."""
    if field.required and field.kind in (Kind.OBJECT, Kind.ARRAY):
        return Leaf(as_json=True)
    return fresh(replace(field, default=MISSING, required=False))


def _way_of(field: Field, value: Json) -> Draft:
    drafts = [draft_of(branch, value) for branch in field.branches]
    for strict in (True, False):
        for at, (branch, draft) in enumerate(zip(field.branches, drafts, strict=True)):
            if fits(branch, draft, strict):
                return Way(at, draft)
    return written(value)


def fits(field: Field, draft: Draft, strict: bool) -> bool:
    """Whether a draft stands in the fields that were made for it; `strict`: with no key left over."""
    match draft:
        case Leaf():
            return not draft.as_json or field.kind is Kind.JSON
        case Group():
            if strict and draft.rest.text:
                return False
            parts = zip(field.fields, draft.parts, strict=True)
            return all(
                fits(part, inner, strict) if not empty(inner) else not part.required
                for part, (_, inner) in parts
            )
        case Items():
            return field.item is not None and all(fits(field.item, item, strict) for item in draft.items)
        case Way():
            return draft.at < 0 or fits(field.branches[draft.at], draft.inner, strict)
    return True


def empty(draft: Draft) -> bool:
    """Whether nothing at all was written there."""
    match draft:
        case Leaf():
            return not draft.text and not draft.given
        case Pick():
            return draft.at < 0
        case Group():
            parts = all(empty(part) for _, part in draft.parts)
            return parts and not draft.rest.text and not draft.given
        case Items():
            return not draft.items and not draft.given
        case Way():
            return draft.at < 0
