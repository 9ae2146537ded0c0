"""The screen on which a person edits the input of a request as JSON. It decides nothing.

The kernel checks, prepares and judges the edited input like a new one, and asks about it on another card.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import TextArea

from flycore.model.approval import ApprovalRequest, Outcome
from flycore.model.errors import FlyError
from flycore.model.json import Json, JsonObject
from flysafe.text import strict_text
from flytui.console.approvals.terms_screen import SendEditedInput
from flytui.console.widgets.lines import LineBar
from flytui.console.widgets.text_input import OrderedKeys, TypeaheadScreen
from flytui.text.lines import StyledLine, Tone, keys_line, line, span, wrapped

MAX_CHARACTERS = 1_000_000
"""Of one paste; what is longer is cut."""
_ESCAPES_AND_SPACES = re.compile(r"(\\(?:u[0-9a-fA-F]{4}|.)| )")
"""Escapes and single spaces separate the pieces that are judged one by one, as words."""


class JsonArea(TextArea, OrderedKeys):
    """A text area for JSON, without markup. A character that cannot be seen is written as its escape."""

    async def _on_paste(self, event: events.Paste) -> None:
        """Insert the pasted text with every character visible."""
        event.stop()
        event.prevent_default()
        self.insert(escape_invisible(event.text[:MAX_CHARACTERS]))


class EditInputScreen(TypeaheadScreen[bool]):
    """Ends with True when the kernel accepted the new input, which then has another card; with False when the
    person goes back to the card."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", show=False, priority=True, id="edit.back"),
        Binding("f2,ctrl+s", "submit", "Submit", show=False, priority=True, id="edit.submit"),
    ]

    def __init__(self, request: ApprovalRequest, send: SendEditedInput) -> None:
        self._area = JsonArea(json_text(request.subject.input), id="edit", soft_wrap=True)
        super().__init__(self._area)
        self._request = request
        self._send_input = send
        self._problem = ""
        self._sending = False
        self._foot = LineBar(self._keys, id="edit-keys")

    def compose(self) -> ComposeResult:
        """Place the text between its title and what is wrong with it."""
        with Vertical(classes="box form"):
            yield LineBar(self._top)
            yield self._area
            yield self._foot

    def action_submit(self) -> None:
        """Send the input to the kernel. Text that is no JSON object is not sent."""
        if self._sending:
            return
        read = read_object(self._area.text)
        if isinstance(read, str):
            self._show_problem(read)
            return
        self._sending = True
        self._foot.redraw()
        self.run_worker(self._send(read), group="edit")

    def action_back(self) -> None:
        """Go back to the card, which stays as it was."""
        self.dismiss(False)

    async def _send(self, input: JsonObject) -> None:
        try:
            outcome = await self._send_input(input)
        except FlyError as error:
            outcome = Outcome(accepted=False, why_not=str(error))
        self._sending = False
        if outcome.accepted:
            self.dismiss(True)
        else:
            self._show_problem(outcome.why_not or "refused")

    def _show_problem(self, words: str) -> None:
        self._problem = words
        self._foot.redraw()

    def _top(self, width: int) -> Sequence[StyledLine]:
        words = "The caller learns that you changed it. It comes back as a new card; nothing runs before."
        rows = [
            line(span("Edit the input of ", Tone.STRONG), span(self._request.tool, Tone.STRONG)),
            line(span(words, Tone.DIM)),
        ]
        return wrapped(rows, width)

    def _keys(self, width: int) -> Sequence[StyledLine]:
        if self._sending:
            return [line(span("checking…", Tone.ACCENT))]
        problem = wrapped([line(span(f"✗ {self._problem}", Tone.WARN))], width, 2) if self._problem else []
        return [
            *problem,
            *wrapped([keys_line([("F2 ctrl+s", "check and show the card"), ("Esc", "back")])], width),
        ]


def json_text(input: JsonObject) -> str:
    """The input as JSON over several lines, with every character visible."""
    return escape_invisible(json.dumps(input, indent=2, ensure_ascii=False))


def escape_invisible(text: str) -> str:
    """JSON text in which a character that cannot be seen, or that looks like another, is a `\\uXXXX`
    escape."""
    plain = text.replace("\r\n", "\n").replace("\t", "    ")
    return "\n".join(_escape_line(part) for part in plain.split("\n"))


def read_object(text: str) -> JsonObject | str:
    """The object that the text spells, or a sentence on what is wrong with it."""
    try:
        value: Json = json.loads(text, object_pairs_hook=_unique_object, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        return f"no JSON: {error.msg}, line {error.lineno} column {error.colno}"
    except RecursionError:
        return "no JSON: nested too deeply"
    except ValueError as error:
        return f"no JSON: {error}"
    return value if isinstance(value, dict) else "the input of a tool is an object: { … }"


def _escape_line(text: str) -> str:
    return "".join(
        piece if strict_text(piece) == piece else "".join(map(_escape, piece))
        for piece in _ESCAPES_AND_SPACES.split(text)
    )


def _escape(character: str) -> str:
    if not character.isascii():
        return json.dumps(character)[1:-1]
    return character if character.isprintable() else f"\\u{ord(character):04x}"


def _unique_object(pairs: list[tuple[str, Json]]) -> JsonObject:
    # `json` keeps the last of two equal keys. A person could read the first one and send the other.
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key is given twice")
    return made


def _reject_constant(text: str) -> Json:
    raise ValueError(f"{text} is no number of JSON")
