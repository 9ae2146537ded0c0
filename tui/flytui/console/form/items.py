"""Items put into and taken out of the arrays of a form. Pure."""

from __future__ import annotations

from dataclasses import replace

from flytui.console.form.drafts import (
    MAX_ITEMS,
    ArrayValue,
    FormValue,
    ObjectValue,
    Path,
    PathStep,
    UnionValue,
    initial_value,
    value_at,
    with_value_at,
)
from flytui.console.form.fields import SchemaField


def with_item_added_or_removed(
    field: SchemaField, draft: FormValue, path: Path, more: bool
) -> tuple[FormValue, Path] | None:
    """The form with one item more after the one that the path leads to or through, or without that one;
    and where keys should go then. None where the path leads through no array, or that is full or empty."""
    for length in range(len(path), -1, -1):
        items, owner = value_at(draft, path[:length]), field_at(field, draft, path[:length])
        if not isinstance(items, ArrayValue) or owner is None or owner.item is None:
            continue
        step = path[length] if length < len(path) else None
        last = len(items.items) - 1
        at = step if isinstance(step, int) else last
        if (more and len(items.items) >= MAX_ITEMS) or (not more and last < 0):
            return None
        new = (initial_value(owner.item),) if more else ()
        kept = items.items[: at + 1] if more else items.items[:at]
        changed = replace(items, items=(*kept, *new, *items.items[at + 1 :]), explicit=False)
        to = (*path[:length], at + 1) if more else path[:length]
        return with_value_at(draft, path[:length], changed), to
    return None


def field_at(field: SchemaField, draft: FormValue, path: Path) -> SchemaField | None:
    """The field that stands at a path of the draft; None where none does."""
    for place, step in enumerate(path):
        here = value_at(draft, path[:place])
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
