"""A form as a value: fields of options that keys change, and the condition on the input that they make.
Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from flycore.approval.allowance_offer import pinnable_keys, pinned_condition
from flycore.model.approval import ApprovalRequest
from flycore.model.json import Json
from flysafe.text import strict_text
from flytui.text.lines import StyledLine, StyledText, Tone, line, span, wrap, wrapped

LABEL_WIDTH = 10
"""The width of a field's label, in cells."""
MAX_INLINE_OPTIONS = 5
"""The most options that are drawn beside each other; of more, only the chosen one is drawn."""
PIN = "pin:"
"""What the id of a field begins with that pins a key of the input."""


class TermsField(msgspec.Struct, frozen=True):
    """A field with several options, of which one is chosen. The first is the narrowest or the most usual
    one."""

    id: str
    label: str
    options: tuple[str, ...]
    at: int = 0
    stride: int = 1
    """The number of options that page up and page down move by."""

    def with_step(self, by: int) -> TermsField:
        """The field with the option `by` places further on; it stops at both ends."""
        return msgspec.structs.replace(self, at=max(0, min(len(self.options) - 1, self.at + by)))

    def with_next(self) -> TermsField:
        """The field with the next option; after the last one comes the first."""
        return msgspec.structs.replace(self, at=(self.at + 1) % len(self.options))

    @property
    def pin(self) -> str | None:
        """The key of the input that this field pins; None for any other field."""
        return self.id.removeprefix(PIN) if self.id.startswith(PIN) else None


class TermsForm(msgspec.Struct, frozen=True):
    """Fields, and a cursor on one of them."""

    fields: tuple[TermsField, ...]
    cursor: int = 0

    def with_cursor_moved(self, by: int) -> TermsForm:
        """The form with the cursor `by` fields further on; it stops at both ends."""
        return msgspec.structs.replace(self, cursor=max(0, min(len(self.fields) - 1, self.cursor + by)))

    def with_field(self, field: TermsField) -> TermsForm:
        """The form with that field in place of the one under the cursor."""
        fields = (*self.fields[: self.cursor], field, *self.fields[self.cursor + 1 :])
        return msgspec.structs.replace(self, fields=fields)

    @property
    def current_field(self) -> TermsField:
        """The field under the cursor."""
        return self.fields[self.cursor]

    def option_index(self, id: str) -> int:
        """The index of the chosen option of that field; 0 where there is no such field."""
        return next((field.at for field in self.fields if field.id == id), 0)

    @property
    def pinned(self) -> tuple[str, ...]:
        """The keys of the input whose value is pinned."""
        return tuple(field.pin for field in self.fields if field.pin is not None and field.at)


def form_after_key(form: TermsForm, key: str) -> TermsForm | None:
    """The form after a key was pressed; None for a key that a form does not use."""
    here = form.current_field
    moves = {"up": -1, "down": 1}
    turns = {"left": -1, "right": 1, "pagedown": -here.stride, "pageup": here.stride}
    if key in moves:
        return form.with_cursor_moved(moves[key])
    if key in turns:
        return form.with_field(here.with_step(turns[key]))
    return form.with_field(here.with_next()) if key == " " else None


def pin_fields(request: ApprovalRequest) -> tuple[TermsField, ...]:
    """A field for each key of the input whose value is not masked, in the order of the card."""
    order = {name: at for at, name in enumerate(request.fields)}
    keys = sorted(pinnable_keys(request), key=lambda key: order.get(key, len(order)))
    return tuple(
        TermsField(f"{PIN}{key}", key, ("anything", f"exactly {_json_line(request.subject.input[key])}"))
        for key in keys
    )


def condition_lines(request: ApprovalRequest, keys: Sequence[str]) -> list[StyledLine]:
    """The lines that give the condition in words, then as the JSON Schema that is written."""
    schema = pinned_condition(request, keys)
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
    """The lines of all fields, and the indices of the first and last line of the field under the cursor."""
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


def _json_line(value: Json) -> str:
    """The value as one line of JSON, with letters unescaped and deceptive characters as visible tokens."""
    return strict_text(json.dumps(value, ensure_ascii=False, sort_keys=True))
