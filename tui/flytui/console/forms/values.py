"""The values in the fields of a form, and how a JSON value is put into them.

Every field takes every JSON value: one that does not fit the field is kept as JSON text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from enum import Enum, auto

import msgspec

from flycore.model.json import Json, escape_key
from flysafe.text import CLOSE, OPEN
from flytui.console.forms.json_editor import escape_invisible
from flytui.console.forms.schema_fields import MISSING, FieldKind, Missing, SchemaField

LONG_TEXT_CHARACTERS = 200
"""A text with more characters is written on several lines."""
MAX_ITEMS = 50
"""An array with more items is written as JSON."""
_TOKEN = re.compile(rf"{OPEN}U\+([0-9A-F]{{4,6}}){CLOSE}")


class PathStep(Enum):
    """The steps of a form's path that are no steps of a JSON pointer."""

    BRANCH = auto()
    """Into the chosen branch of a union."""
    REST = auto()
    """Into the keys of an object that have no field."""


Path = tuple[str | int | PathStep, ...]


class TextValue(msgspec.Struct, frozen=True):
    """A text. An empty text is no value, unless it is `explicit`."""

    text: str = ""
    explicit: bool = False
    as_json: bool = False
    """Whether the text is JSON."""
    long: bool = False
    """Whether the text had line ends or too many characters for one line, so that it gets several lines."""


class ChoiceValue(msgspec.Struct, frozen=True):
    """A chosen option by its index, -1 for none."""

    at: int = -1


class ObjectValue(msgspec.Struct, frozen=True):
    """The fields of an object in their order, and its other keys as JSON text."""

    parts: tuple[tuple[str, FormValue], ...] = ()
    rest: TextValue = TextValue(as_json=True)
    explicit: bool = False
    """Whether the object is sent even when all of its fields are empty."""


class ArrayValue(msgspec.Struct, frozen=True):
    """The items of an array. An empty array is no value, unless it is `explicit`."""

    items: tuple[FormValue, ...] = ()
    explicit: bool = False


class UnionValue(msgspec.Struct, frozen=True):
    """A chosen branch by its index, -1 for none, and the value in it."""

    at: int = -1
    inner: FormValue = TextValue()


FormValue = TextValue | ChoiceValue | ObjectValue | ArrayValue | UnionValue


def initial_value(field: SchemaField) -> FormValue:
    """The value that a field of a new form has: the default, or the only option of a required constant."""
    if not isinstance(field.default, Missing):
        return value_from_json(field, field.default)
    match field.kind:
        case FieldKind.CHOICE:
            return ChoiceValue(0 if field.required and len(field.options) == 1 else -1)
        case FieldKind.OBJECT:
            return ObjectValue(tuple((part.name, initial_value(part)) for part in field.fields))
        case FieldKind.ARRAY:
            return ArrayValue()
        case FieldKind.UNION:
            return union_value(field, 0) if field.required else UnionValue()
        case _:
            return TextValue(as_json=field.kind is FieldKind.JSON)


def union_value(field: SchemaField, at: int) -> UnionValue:
    """The union with that branch chosen and empty; -1 chooses none."""
    return UnionValue(at, initial_value(field.branches[at])) if at >= 0 else UnionValue()


def value_from_json(field: SchemaField, value: Json) -> FormValue:
    """The field's value for a JSON value; JSON text where the field does not fit it."""
    match field.kind:
        case FieldKind.TEXT if isinstance(value, str):
            return TextValue(
                value, explicit=not value, long="\n" in value or len(value) > LONG_TEXT_CHARACTERS
            )
        case FieldKind.NUMBER if isinstance(value, int | float) and not isinstance(value, bool):
            return TextValue(json.dumps(value))
        case FieldKind.CHOICE:
            at = _index_of(field.options, value)
            return ChoiceValue(at) if at >= 0 else json_text_value(value)
        case FieldKind.OBJECT if isinstance(value, dict):
            return _object_value_of(field, value)
        case FieldKind.ARRAY if (
            isinstance(value, list) and len(value) <= MAX_ITEMS and field.item is not None
        ):
            item = field.item
            return ArrayValue(tuple(value_from_json(item, each) for each in value), explicit=not value)
        case FieldKind.UNION:
            return _union_value_of(field, value)
    return json_text_value(value)


def json_text_value(value: Json) -> TextValue:
    """The value as JSON text with every character visible."""
    return TextValue(escape_invisible(json.dumps(value, indent=2, ensure_ascii=False)), as_json=True)


def is_initial(field: SchemaField, form_value: ObjectValue) -> bool:
    """Whether an object is unchanged from a new form."""
    return (
        form_value.parts == tuple((part.name, initial_value(part)) for part in field.fields)
        and not form_value.rest.text
    )


def value_at(form_value: FormValue, path: Path) -> FormValue | None:
    """The value at the path; None where the path leads nowhere any more."""
    for step in path:
        found: FormValue | None = None
        match form_value, step:
            case ObjectValue(), PathStep.REST:
                found = form_value.rest
            case ObjectValue(), str():
                found = next((part for name, part in form_value.parts if name == step), None)
            case ArrayValue(), int() if step < len(form_value.items):
                found = form_value.items[step]
            case UnionValue(), PathStep.BRANCH if form_value.at >= 0:
                found = form_value.inner
        if found is None:
            return None
        form_value = found
    return form_value


def with_value_at(form_value: FormValue, path: Path, new: FormValue) -> FormValue:
    """The form's value with `new` at the path; unchanged where the path leads nowhere."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    match form_value:
        case ObjectValue() if step is PathStep.REST:
            return msgspec.structs.replace(form_value, rest=new) if isinstance(new, TextValue) else form_value
        case ObjectValue():
            parts = (
                (name, with_value_at(part, rest, new) if name == step else part)
                for name, part in form_value.parts
            )
            return msgspec.structs.replace(form_value, parts=tuple(parts))
        case ArrayValue():
            items = (
                with_value_at(item, rest, new) if at == step else item
                for at, item in enumerate(form_value.items)
            )
            return msgspec.structs.replace(form_value, items=tuple(items))
        case UnionValue() if step is PathStep.BRANCH:
            return msgspec.structs.replace(form_value, inner=with_value_at(form_value.inner, rest, new))
    return form_value


def pointer_of(path: Path) -> str:
    """The path as a JSON pointer into the input."""
    return "".join(f"/{escape_key(step)}" for step in path if not isinstance(step, PathStep))


def without_tokens(text: str) -> str:
    """The text behind a drawn `safe_text`: every token becomes the character that it names again."""
    return _TOKEN.sub(lambda found: _token_character(found[0], int(found[1], 16)), text)


def _token_character(token: str, number: int) -> str:
    return chr(number) if number <= 0x10FFFF else token


def _index_of(options: Sequence[Json], value: Json) -> int:
    return next((at for at, option in enumerate(options) if _same_json(option, value)), -1)


def _same_json(one: Json, other: Json) -> bool:
    """Whether two values are the same JSON. Python alone would call 1, 1.0 and true equal."""
    return bool(one == other) and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _object_value_of(field: SchemaField, value: dict[str, Json]) -> ObjectValue:
    names = {part.name for part in field.fields}
    parts = tuple(
        (part.name, value_from_json(part, value[part.name]) if part.name in value else _absent_value(part))
        for part in field.fields
    )
    others = {name: other for name, other in value.items() if name not in names}
    group = ObjectValue(parts, json_text_value(others) if others else TextValue(as_json=True))
    return msgspec.structs.replace(group, explicit=not value or is_initial(field, group))


def _absent_value(field: SchemaField) -> FormValue:
    """The value of a field that an input leaves out: empty, without the default that a new form shows."""
    if field.required and field.kind in (FieldKind.OBJECT, FieldKind.ARRAY):
        return TextValue(as_json=True)
    return initial_value(msgspec.structs.replace(field, default=MISSING, required=False))


def _union_value_of(field: SchemaField, value: Json) -> FormValue:
    form_values = [value_from_json(branch, value) for branch in field.branches]
    # First a branch that has a field for every key, then one that leaves keys over.
    for strict in (True, False):
        for at, (branch, form_value) in enumerate(zip(field.branches, form_values, strict=True)):
            if fits_field(branch, form_value, strict):
                return UnionValue(at, form_value)
    return json_text_value(value)


def fits_field(field: SchemaField, form_value: FormValue, strict: bool) -> bool:
    """Whether a value uses the fields as they are, without JSON text in their place. `strict` allows no keys
    without a field."""
    match form_value:
        case TextValue():
            return not form_value.as_json or field.kind is FieldKind.JSON
        case ObjectValue():
            if strict and form_value.rest.text:
                return False
            parts = zip(field.fields, form_value.parts, strict=True)
            return all(
                fits_field(part, inner, strict) if not is_empty(inner) else not part.required
                for part, (_, inner) in parts
            )
        case ArrayValue():
            return field.item is not None and all(
                fits_field(field.item, item, strict) for item in form_value.items
            )
        case UnionValue():
            return form_value.at < 0 or fits_field(field.branches[form_value.at], form_value.inner, strict)
    return True


def is_empty(form_value: FormValue) -> bool:
    """Whether the person wrote nothing there."""
    match form_value:
        case TextValue():
            return not form_value.text and not form_value.explicit
        case ChoiceValue():
            return form_value.at < 0
        case ObjectValue():
            parts = all(is_empty(part) for _, part in form_value.parts)
            return parts and not form_value.rest.text and not form_value.explicit
        case ArrayValue():
            return not form_value.items and not form_value.explicit
        case UnionValue():
            return form_value.at < 0


# Adding and removing the items of arrays.


def with_item_added_or_removed(
    field: SchemaField, form_value: FormValue, path: Path, more: bool
) -> tuple[FormValue, Path] | None:
    """The form with an item added after the item on the path, or with that item removed, and the path that
    the focus moves to. None where the path leads through no array, or where that array is full or empty."""
    # The innermost array on the path is meant, so the path is tried from its end.
    for length in range(len(path), -1, -1):
        items, owner = value_at(form_value, path[:length]), field_at(field, form_value, path[:length])
        if not isinstance(items, ArrayValue) or owner is None or owner.item is None:
            continue
        step = path[length] if length < len(path) else None
        last = len(items.items) - 1
        at = step if isinstance(step, int) else last
        if (more and len(items.items) >= MAX_ITEMS) or (not more and last < 0):
            return None
        new = (initial_value(owner.item),) if more else ()
        kept = items.items[: at + 1] if more else items.items[:at]
        changed = msgspec.structs.replace(items, items=(*kept, *new, *items.items[at + 1 :]), explicit=False)
        to = (*path[:length], at + 1) if more else path[:length]
        return with_value_at(form_value, path[:length], changed), to
    return None


def field_at(field: SchemaField, form_value: FormValue, path: Path) -> SchemaField | None:
    """The field at a path of the form's value; None where there is none."""
    for place, step in enumerate(path):
        here = value_at(form_value, path[:place])
        found: SchemaField | None = None
        if isinstance(here, ObjectValue) and not isinstance(step, PathStep):
            found = next((part for part in field.fields if part.name == step), None)
        elif isinstance(here, ArrayValue):
            found = field.item
        elif isinstance(here, UnionValue) and here.at >= 0:
            found = field.branches[here.at]
        if found is None:
            return None
        field = found
    return field
