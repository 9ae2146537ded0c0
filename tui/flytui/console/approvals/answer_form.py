"""The form of a question: the values that an MCP server asks a person for. Only its key sends them."""

from __future__ import annotations

from collections.abc import Sequence

from flycore.model.json import JsonObject
from flycore.model.question import Question
from flysafe.text import strict_text
from flytui.console.forms.form_screen import FormScreen
from flytui.console.state import ConsoleState
from flytui.text.lines import StyledLine, StyledText, Tone, line, span, wrap

NOTE = "The names and texts of the fields are the server's. What you write goes to it: no password, no key."
MOST_TITLE_LINES = 3


class AnswerFormScreen(FormScreen):
    """The form of one question. It gives the values, or None where the person goes back."""

    HEADING = "Answer"
    of_one_kernel = True
    decides = True

    def __init__(self, state: ConsoleState, question: Question) -> None:
        super().__init__(state, question.form)
        self._question = question

    def _submit(self, values: JsonObject) -> None:
        self.dismiss(values)

    def _top(self, width: int) -> Sequence[StyledLine]:
        title = wrap(line(StyledText(" "), span(strict_text(self._question.title), Tone.STRONG)), width, 1)
        return [*title[:MOST_TITLE_LINES], *wrap(line(span(f" {NOTE}", Tone.DIM)), width, 1)[:2]]
