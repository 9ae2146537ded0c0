"""The line in which words of a filter or a jump are written."""

from __future__ import annotations

from textual.widgets import Input

from flysafe.text import safe_text


class FilterInput(Input):
    """An Input whose text is its own `safe_text`: what is pasted and not drawn stands as tokens."""

    def replace(self, text: str, start: int, end: int) -> None:
        """Every way in which text is put in ends here."""
        super().replace(safe_text(text), start, end)
