"""The layout of a form from top to bottom: one entry for each field, group, item and branch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto

import msgspec

from flycore.model.json import Json
from flytui.console.forms.schema_fields import FieldKind, Missing, SchemaField
from flytui.console.forms.validate import InputProblem
from flytui.console.forms.values import (
    ArrayValue,
    ChoiceValue,
    FormValue,
    ObjectValue,
    Path,
    PathStep,
    TextValue,
    UnionValue,
    pointer_of,
)
from flytui.text.lines import StyledLine, StyledText, Tone, line, span, wrap

MAX_ENTRIES = 200
"""A form with more entries is not drawn; its input is written as JSON."""
_MAX_DEFAULT_CHARACTERS = 60
"""Characters of a default that are shown below its field."""


class Control(Enum):
    """The kind of widget that a field is written with."""

    NONE = auto()
    LINE = auto()
    SECRET = auto()
    AREA = auto()
    JSON = auto()
    CHOICE = auto()
    BRANCH = auto()
    ITEMS = auto()


class LayoutEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a form that is drawn."""

    path: Path
    depth: int
    label: str
    field: SchemaField
    form_value: FormValue
    control: Control
    required: bool = False

    @property
    def pointer(self) -> str:
        """The JSON pointer to its place in the input."""
        return pointer_of(self.path)


def layout_entries(field: SchemaField, form_value: FormValue) -> tuple[LayoutEntry, ...]:
    """All entries of a form, in the order in which they are drawn."""
    return tuple(_entries(field, form_value, (), 0, "", True))


def layout_shape(entries: Sequence[LayoutEntry]) -> tuple[tuple[Path, Control], ...]:
    """The paths and kinds of the controls. While they are the same, no widget is mounted or removed."""
    return tuple((entry.path, entry.control) for entry in entries)


def problems_by_entry(
    entries: Sequence[LayoutEntry], problems: Sequence[InputProblem]
) -> tuple[Mapping[Path, Sequence[InputProblem]], Sequence[InputProblem]]:
    """The problems by the path of the deepest entry that contains them, and the problems outside all
    entries."""
    at: dict[Path, list[InputProblem]] = {}
    nowhere: list[InputProblem] = []
    by_pointer: dict[str, Path] = {
        entry.pointer: entry.path for entry in entries if entry.pointer and PathStep.REST not in entry.path
    }
    for problem in problems:
        here = problem.pointer
        while here and here not in by_pointer:
            here = here.rpartition("/")[0]
        if not here:
            nowhere.append(problem)
            continue
        below = problem.pointer[len(here) :]
        shown = msgspec.structs.replace(problem, message=f"{below}: {problem.message}") if below else problem
        at.setdefault(by_pointer[here], []).append(shown)
    return at, nowhere


def option_labels(options: Sequence[Json]) -> tuple[str, ...]:
    """The labels of options: texts as they are, but all options as JSON where one of them is no text."""
    if all(isinstance(option, str) and option for option in options):
        return tuple(str(option) for option in options)
    return tuple(json.dumps(option, ensure_ascii=False) for option in options)


def branch_labels(field: SchemaField) -> tuple[str, ...]:
    """The labels of branches: their titles, otherwise the kinds of their values."""
    return tuple(branch.title or _kind_label(branch) for branch in field.branches)


def label_line(entry: LayoutEntry) -> StyledLine:
    """The line above a field: its name, a mark where it is required, and what it takes."""
    mark = span(" *", Tone.WARN) if entry.required else StyledText("")
    words = [] if entry.control is Control.BRANCH else [_kind_label(entry.field)]
    if entry.control is Control.JSON and entry.field.kind is not FieldKind.JSON:
        words.append("as JSON")
    kind = span("  " + ", ".join((*words, *entry.field.bounds)), Tone.DIM)
    head = span(entry.label, Tone.STRONG)
    return line(head, mark, kind)


def note_lines(
    entry: LayoutEntry, problems: Sequence[InputProblem], width: int, tried: bool
) -> list[StyledLine]:
    """The lines below a field: what it is for, and what is wrong with its value."""
    rows: list[StyledLine] = []
    field = entry.field
    title = field.title if field.title not in ("", entry.label) else ""
    about = " · ".join(text for text in (title, field.about) if text)
    if about:
        rows += wrap(line(span(about, Tone.DIM)), width)
    if not isinstance(field.default, Missing) and entry.form_value in (
        TextValue(),
        ChoiceValue(),
        ArrayValue(),
        UnionValue(),
    ):
        text = json.dumps(field.default, ensure_ascii=False)
        cut = text if len(text) <= _MAX_DEFAULT_CHARACTERS else text[: _MAX_DEFAULT_CHARACTERS - 1] + "…"
        rows += wrap(line(span(f"left out, it becomes {cut}", Tone.DIM)), width)
    if isinstance(entry.form_value, TextValue) and entry.form_value.explicit and not entry.form_value.text:
        rows.append(line(span("an empty text is sent", Tone.DIM)))
    for problem in problems:
        quiet = problem.missing and not tried
        mark, tone = ("◌", Tone.DIM) if quiet else ("✗", Tone.WARN)
        rows += wrap(line(span(f"{mark} {problem.message}", tone)), width, 2)
    return rows


def _entries(
    field: SchemaField, form_value: FormValue, path: Path, depth: int, label: str, required: bool
) -> Iterator[LayoutEntry]:
    entry = LayoutEntry(
        path=path,
        depth=depth,
        label=label,
        field=field,
        form_value=form_value,
        control=_control(field, form_value),
        required=required and bool(path),
    )
    inner = depth + 1 if path else depth
    match form_value:
        case ObjectValue():
            if path and label:
                yield entry
            yield from _object_entries(field, form_value, path, inner if label else depth)
        case ArrayValue() if field.item is not None:
            yield entry
            for at, item in enumerate(form_value.items):
                yield from _entries(field.item, item, (*path, at), depth + 1, f"{label} {at + 1}", True)
        case UnionValue():
            yield entry
            if form_value.at >= 0:
                branch = field.branches[form_value.at]
                if not _is_constant(branch):
                    yield from _entries(branch, form_value.inner, (*path, PathStep.BRANCH), inner, "", False)
        case _:
            yield entry


def _object_entries(
    field: SchemaField, form_value: ObjectValue, path: Path, depth: int
) -> Iterator[LayoutEntry]:
    for part, (name, inner) in zip(field.fields, form_value.parts, strict=True):
        yield from _entries(part, inner, (*path, name), depth, name, part.required)
    if field.open or form_value.rest.text:
        rest = SchemaField(
            kind=FieldKind.JSON, about="An object. Its keys are sent together with the fields above."
        )
        yield LayoutEntry(
            path=(*path, PathStep.REST),
            depth=depth,
            label="other keys",
            field=rest,
            form_value=form_value.rest,
            control=Control.JSON,
        )


def _is_constant(branch: SchemaField) -> bool:
    """Whether the branch has only one value, so that nothing is left to write."""
    return branch.kind is FieldKind.CHOICE and len(branch.options) == 1


def _control(field: SchemaField, form_value: FormValue) -> Control:
    match form_value:
        case TextValue(as_json=True):
            return Control.JSON
        case TextValue():
            if field.secret:
                return Control.SECRET
            long = field.kind is FieldKind.TEXT and (field.long or form_value.long)
            return Control.AREA if long else Control.LINE
        case ChoiceValue():
            return Control.CHOICE
        case UnionValue():
            return Control.BRANCH
        case ArrayValue():
            return Control.ITEMS
    return Control.NONE


def _kind_label(field: SchemaField) -> str:
    match field.kind:
        case FieldKind.TEXT:
            return "secret text" if field.secret else "text"
        case FieldKind.CHOICE if len(field.options) == 1:
            return option_labels(field.options)[0]
        case FieldKind.CHOICE if field.options == (True, False):
            return "true or false"
        case FieldKind.CHOICE:
            return f"one of {len(field.options)}"
        case FieldKind.UNION:
            return f"one of {len(field.branches)} kinds"
        case FieldKind.JSON:
            return "any JSON"
    return field.kind.name.lower()
