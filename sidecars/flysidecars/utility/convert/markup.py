"""xml, by the usual mapping: attributes as `@name`, text as `#text`, elements of one name as a list.

Document type declarations are refused, and with them every entity that is not XML's own.
"""

from __future__ import annotations

import re
from xml.parsers import expat

from flysidecars.utility.convert.values import MAX_DEPTH, LossLog, Unreadable, Unrepresentable, below

_NAME = re.compile(r"[A-Za-z_\u00c0-\ufffd][-.\w:\u00b7]*")
_NO_CHARACTER = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
)
_TEXT_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})


class _Element:
    __slots__ = ("children", "name", "text", "value")

    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name = name
        self.value: dict[str, object] = {f"@{key}": item for key, item in attributes.items()}
        self.text = ""
        self.children: list[str] = []


class _Reader:
    def __init__(self, lost: LossLog) -> None:
        self._lost = lost
        self._open = [_Element("", {})]
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.CommentHandler = lambda _: lost.note("comments are not kept")
        self.parser.ProcessingInstructionHandler = lambda *_: lost.note(
            "processing instructions are not kept"
        )
        self.parser.StartDoctypeDeclHandler = self._doctype

    @property
    def value(self) -> dict[str, object]:
        return self._open[0].value

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) > MAX_DEPTH:
            raise Unreadable("xml", f"more than {MAX_DEPTH} levels deep")
        self._open.append(_Element(name, attributes))

    def _characters(self, text: str) -> None:
        self._open[-1].text += text

    def _doctype(self, *_: object) -> None:
        raise Unreadable("plain xml", "a document type declaration", self.parser.CurrentLineNumber)

    def _end(self, name: str) -> None:
        element, holder = self._open.pop(), self._open[-1]
        value = self._value(element)
        if name in holder.value:
            if holder.children[-1] != name:
                self._lost.note("the order of elements of different names is not kept")
            previous = holder.value[name]
            holder.value[name] = [*previous, value] if isinstance(previous, list) else [previous, value]
        else:
            holder.value[name] = value
        holder.children.append(name)

    def _value(self, element: _Element) -> object:
        if element.children:
            if element.text.strip():
                self._lost.note("text between elements is joined", f"/{element.name}")
                element.value["#text"] = element.text
            return element.value
        if element.value:
            if element.text:
                element.value["#text"] = element.text
            return element.value
        return element.text


def read_xml(text: str, lost: LossLog) -> object:
    """Parse a document into an object with one member, the root element. Raises `Unreadable`."""
    reader = _Reader(lost)
    try:
        reader.parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        raise Unreadable("xml", expat.ErrorString(error.code) or "broken", error.lineno) from error
    return reader.value


def write_xml(value: object, lost: LossLog) -> str:
    """Write an object with one member, the root element. Raises `Unrepresentable`."""
    if not isinstance(value, dict) or len(value) != 1:
        raise Unrepresentable("", "xml has one root: an object with one member")
    name, content = next(iter(value.items()))
    if isinstance(content, list):
        raise Unrepresentable(below("", name), "xml has one root, not a list of them")
    parts = ['<?xml version="1.0" encoding="UTF-8"?>\n']
    _write(parts, str(name), content, below("", name), lost)
    return "".join(parts) + "\n"


def _write(parts: list[str], name: str, value: object, place: str, lost: LossLog) -> None:
    if not _NAME.fullmatch(name):
        raise Unrepresentable(place, f"{name!r} is no name of an element")
    if not isinstance(value, dict):
        text = _text(value, place, lost)
        parts.append(f"<{name}>{text}</{name}>" if text else f"<{name}/>")
        return
    attributes = "".join(
        f' {_attribute(key, place)}="{_plain(item, below(place, key), lost).translate(_ESCAPES)}"'
        for key, item in value.items()
        if key.startswith("@")
    )
    parts.append(f"<{name}{attributes}>")
    for key, item in value.items():
        if key == "#text":
            parts.append(_text(item, below(place, key), lost))
        elif not key.startswith("@"):
            _write_members(parts, key, item, below(place, key), lost)
    parts.append(f"</{name}>")


def _write_members(parts: list[str], key: str, item: object, place: str, lost: LossLog) -> None:
    if not isinstance(item, list):
        _write(parts, key, item, place, lost)
        return
    if len(item) < 2:
        lost.note("a list of one or none is not told from its item", place)
    for at, inner in enumerate(item):
        if isinstance(inner, list):
            raise Unrepresentable(below(place, at), "a list in a list has no form in xml")
        _write(parts, key, inner, below(place, at), lost)


def _attribute(key: str, place: str) -> str:
    if not _NAME.fullmatch(key[1:]):
        raise Unrepresentable(below(place, key), "no name of an attribute")
    return key[1:]


def _text(value: object, place: str, lost: LossLog) -> str:
    return _plain(value, place, lost).translate(_TEXT_ESCAPES)


def _plain(value: object, place: str, lost: LossLog) -> str:
    if isinstance(value, (dict, list)):
        raise Unrepresentable(place, "text or a number is needed here")
    if value is None:
        lost.note("null becomes empty", place)
        return ""
    if not isinstance(value, str):
        lost.note("numbers, true and false become text")
        return str(value).lower() if isinstance(value, bool) else repr(value)
    if _NO_CHARACTER.search(value):
        raise Unrepresentable(place, "a control character has no form in xml")
    return value
