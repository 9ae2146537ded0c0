"""Extracts the title and the main text of a page with the standard library's parser.

The main text is what `main` or `article` contain. On a page without them it is everything but navigation,
forms and elements that a browser does not show. Trafilatura gives better results.
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
_MIN_MAIN_TEXT = 40
"""Characters that `main` and `article` must contain to be taken as the main text."""


class ReadablePage(HTMLParser):
    """A parser for one page. Call `feed` and `close`, then read `title` and `text`."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._skipped: list[str] = []
        self._main = 0
        self._in_title = False
        self._title: list[str] = []
        self._all: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element: title, skipped part, main part or block."""
        if tag == "title" and not self._title:
            self._in_title = True
        elif tag == "body":  # its `head` may have no end tag
            self._skipped.clear()
        elif tag in _SKIPPED:
            self._skipped.append(tag)
        elif tag in _MAIN:
            self._main += 1
        if tag in _BLOCKS:
            self._add("\n")

    def handle_endtag(self, tag: str) -> None:
        """End the innermost element of that name, and those inside it that have no end tag."""
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
        """Add text to the title or to the page."""
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
        """The page's title as one line."""
        return " ".join("".join(self._title).split())

    @property
    def text(self) -> str:
        """The main text with one line for each block and single spaces."""
        inside = _lines(self._inside)
        return inside if len(inside) >= _MIN_MAIN_TEXT else _lines(self._all)


def _lines(parts: list[str]) -> str:
    lines = (" ".join(line.split()) for line in "".join(parts).split("\n"))
    return "\n".join(line for line in lines if line)
