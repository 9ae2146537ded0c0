"""Forms as values: fields that are turned by keys, and what they say about a request. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from flycore.model.approval import ApprovalRequest
from flycore.model.json import Json, JsonObject, pointer_keys
from flysafe.text import strict_text
from flytui.text.lines import StyledLine, StyledText, Tone, line, span, wrap, wrapped

LABEL_WIDTH = 10
"""Cells of a field's label."""
MAX_INLINE_OPTIONS = 5
"""So many options are drawn beside each other; of more only the chosen one."""
PIN = "pin:"


@dataclass(frozen=True, slots=True)
class TermsField:
    """One choice. Its first option is the narrowest or the most usual one."""

    id: str
    label: str
    options: tuple[str, ...]
    at: int = 0
    stride: int = 1
    """How far page up and page down turn it."""

    def with_step(self, by: int) -> TermsField:
        """The option so many places on; it stops at both ends."""
        return replace(self, at=max(0, min(len(self.options) - 1, self.at + by)))

    def with_next(self) -> TermsField:
        """The next option, from the last one back to the first."""
        return replace(self, at=(self.at + 1) % len(self.options))

    @property
    def pin(self) -> str | None:
        """The input's key this field pins, None for any other field."""
        return self.id.removeprefix(PIN) if self.id.startswith(PIN) else None


@dataclass(frozen=True, slots=True)
class TermsForm:
    """Fields with a cursor."""

    fields: tuple[TermsField, ...]
    cursor: int = 0

    def with_cursor_moved(self, by: int) -> TermsForm:
        """The cursor so many fields on; it stops at both ends."""
        return replace(self, cursor=max(0, min(len(self.fields) - 1, self.cursor + by)))

    def with_field(self, field: TermsField) -> TermsForm:
        """The form with that field in place of the one under the cursor."""
        fields = (*self.fields[: self.cursor], field, *self.fields[self.cursor + 1 :])
        return replace(self, fields=fields)

    @property
    def current_field(self) -> TermsField:
        """The field under the cursor."""
        return self.fields[self.cursor]

    def option_index(self, id: str) -> int:
        """Which option of that field is chosen; 0 where there is no such field."""
        return next((field.at for field in self.fields if field.id == id), 0)

    @property
    def pinned(self) -> tuple[str, ...]:
        """Keys of the input whose value is pinned."""
        return tuple(field.pin for field in self.fields if field.pin is not None and field.at)


def form_after_key(form: TermsForm, key: str) -> TermsForm | None:
    """The form after a key; None for a key that is none of a form's."""
    here = form.current_field
    moves = {"up": -1, "down": 1}
    turns = {"left": -1, "right": 1, "pagedown": -here.stride, "pageup": here.stride}
    if key in moves:
        return form.with_cursor_moved(moves[key])
    if key in turns:
        return form.with_field(here.with_step(turns[key]))
    return form.with_field(here.with_next()) if key == " " else None


def pin_fields(request: ApprovalRequest) -> tuple[TermsField, ...]:
    """A field for each key of the input. A masked value cannot be pinned: a rule would show it."""
    masked = {pointer_keys(pointer)[0] for pointer in _pointers(request)}
    return tuple(
        TermsField(f"{PIN}{key}", key, ("anything", f"exactly {_json_line(value)}"))
        for key, value in sorted(request.subject.input.items())
        if key not in masked
    )


def condition(request: ApprovalRequest, keys: Iterable[str]) -> JsonObject | None:
    """The JSON Schema that pins those keys to the request's values; None for no key."""
    given = request.subject.input
    properties: JsonObject = {key: {"const": given[key]} for key in keys}
    return {"properties": properties, "required": list(properties)} if properties else None


def condition_lines(request: ApprovalRequest, keys: Sequence[str]) -> list[StyledLine]:
    """The condition in words, then as the JSON Schema it is."""
    schema = condition(request, keys)
    if schema is None:
        return [line(StyledText("Input     ", Tone.DIM), span("any input", Tone.WARN))]
    rows = [
        line(
            StyledText("Input     " if index == 0 else "          ", Tone.DIM),
            StyledText(f"{strict_text(key)} is exactly {_json_line(request.subject.input[key])}"),
        )
        for index, key in enumerate(keys)
    ]
    rest = "every other field may hold anything"
    return [
        *rows,
        line(StyledText("          "), span(rest, Tone.DIM)),
        line(StyledText("Schema    ", Tone.DIM), StyledText(_json_line(schema), Tone.QUOTE)),
    ]


def form_lines(form: TermsForm, width: int, *, active: bool = True) -> tuple[list[StyledLine], int, int]:
    """The fields, each whole and wrapped, and where the one under the cursor begins and ends."""
    rows: list[StyledLine] = []
    first = last = 0
    for index, field in enumerate(form.fields):
        if field.pin is not None and (index == 0 or form.fields[index - 1].pin is None):
            rows += [(), *wrapped([line(span("Only where the input's field is", Tone.DIM))], width)]
        here = active and index == form.cursor
        mark = StyledText("▌ " if here else "  ", Tone.ACCENT)
        start = len(rows)
        rows += wrap((mark, *_field(field)), width, LABEL_WIDTH + 2)
        if here:
            first, last = start, len(rows) - 1
    return rows, first, last


def _field(field: TermsField) -> StyledLine:
    label = StyledText(strict_text(field.label).ljust(LABEL_WIDTH - 1) + " ", Tone.DIM)
    if field.pin is not None:
        tone = Tone.STRONG if field.at else Tone.DIM
        return (StyledText("[x] " if field.at else "[ ] "), label, StyledText(field.options[field.at], tone))
    if len(field.options) > MAX_INLINE_OPTIONS:
        return (label, StyledText(f"‹ {field.options[field.at]} ›", Tone.STRONG))
    parts: list[StyledText] = []
    for at, words in enumerate(field.options):
        chosen = at == field.at
        parts.append(
            StyledText(f"[{words}]" if chosen else f" {words} ", Tone.STRONG if chosen else Tone.DIM)
        )
        parts.append(StyledText(" "))
    return (label, *parts)


def _pointers(request: ApprovalRequest) -> tuple[str, ...]:
    return tuple(pointer for pointer in request.masked if pointer.startswith("/"))


def _json_line(value: Json) -> str:
    """One line of JSON with real letters, what could deceive as tokens."""
    return strict_text(json.dumps(value, ensure_ascii=False, sort_keys=True))
