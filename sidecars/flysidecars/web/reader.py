"""Title and main text of a page, with nothing but the standard library's parser.

Not as good as trafilatura: what stands in `main` or `article` is the text, where there is such a part; else
everything but navigation, forms and what is not shown.
"""

from __future__ import annotations

from html.parser import HTMLParser

_SKIPPED = frozenset(
    (
        *("script", "style", "noscript", "template", "svg", "math", "iframe", "object", "canvas", "head"),
        *("nav", "aside", "footer", "form", "button", "select", "textarea", "dialog", "video", "audio"),
    )
)
_BLOCKS = frozenset(
    (
        *("p", "div", "section", "article", "main", "header", "h1", "h2", "h3", "h4", "h5", "h6", "li", "ul"),
        *("ol", "dl", "dt", "dd", "table", "tr", "blockquote", "pre", "figure", "figcaption", "br", "hr"),
    )
)
_MAIN = ("main", "article")
_LEAST = 40
"""Characters that a `main` part needs to be taken for the text."""


class ReadablePage(HTMLParser):
    """Feed it a page, then ask `title` and `text`."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._skipped: list[str] = []
        self._main = 0
        self._in_title = False
        self._title: list[str] = []
        self._all: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where text begins and ends."""
        if tag == "title" and not self._title:
            self._in_title = True
        elif tag == "body":
            self._skipped.clear()
        elif tag in _SKIPPED:
            self._skipped.append(tag)
        elif tag in _MAIN:
            self._main += 1
        if tag in _BLOCKS:
            self._add("\n")

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost of that name, with what was left open inside."""
        if tag == "title":
            self._in_title = False
        elif tag in self._skipped:
            while self._skipped.pop() != tag:
                continue
        elif tag in _MAIN:
            self._main = max(0, self._main - 1)
        if tag in _BLOCKS:
            self._add("\n")

    def handle_data(self, data: str) -> None:
        """Text, wherever it belongs."""
        if self._in_title:
            self._title.append(data)
        else:
            self._add(data)

    def _add(self, text: str) -> None:
        if self._skipped:
            return
        self._all.append(text)
        if self._main:
            self._inside.append(text)

    @property
    def title(self) -> str:
        """Of the page, in one line."""
        return " ".join("".join(self._title).split())

    @property
    def text(self) -> str:
        """The main text: a line a block, blanks as one."""
        inside = _lines(self._inside)
        return inside if len(inside) >= _LEAST else _lines(self._all)


def _lines(parts: list[str]) -> str:
    lines = (" ".join(line.split()) for line in "".join(parts).split("\n"))
    return "\n".join(line for line in lines if line)
