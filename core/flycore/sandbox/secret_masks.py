"""Masks over injected secrets: removes them from a tool's output, in the encodings that programs are likely
to use."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Iterator, Mapping
from typing import overload
from urllib.parse import quote, quote_plus

from flycore.model.json import MASK, Json, JsonObject

PIECE = 4
"""How many characters a piece of a secret at a cut must have to be masked; fewer would match ordinary
text."""
SURELY_CUT = 2_000
"""From this length on a text that may be cut surely is: it has one of the runners' limits. There a piece of
one character is masked as well, for it can only stand at the border."""
CUT_CHARACTER = "\ufffd"
"""The character that decoding puts in place of one that was cut through."""


class Masks:
    """Replaces the exact secrets and their encodings by a mask. Without secrets every text stays as it is."""

    # Nothing else is masked: without its paths and hosts a person could not see what a call does.

    def __init__(self, secrets: Mapping[str, str]) -> None:
        spelled = {text for value in secrets.values() for text in spellings(value) if text}
        self._spellings = sorted(spelled, key=len, reverse=True)
        plain = {_plain(text.encode("utf-8", "surrogatepass")) for text in _breakable(secrets)}
        # Longer ones first, as above. What is all noise, such as a secret of newlines, is left out.
        self._plain = sorted((form for form in plain if len(form) >= PIECE), key=len, reverse=True)

    def text(self, text: str, *, cut: bool = False) -> str:
        """The text with every spelling of a secret replaced.

        `cut` says that the text was shortened without knowledge of the secrets: then a piece of one at either
        end is replaced as well.
        """
        if cut and self._spellings:
            text = self._edges(text)
        # Longer spellings first: a shorter one within a longer one would leave the rest of it.
        for spelling in self._spellings:
            if spelling in text:
                text = text.replace(spelling, MASK)
        return self._encoded(text) if self._plain and _MAY_ENCODE.search(text) else text

    def _encoded(self, text: str) -> str:
        """The text with every secret masked that shows only once escapes are decoded and breaks removed."""
        data = text.encode("utf-8", "surrogatepass")
        plain = _plain(data)
        if not any(form in plain for form in self._plain):
            return text
        # Only now the work that knows which bytes of the text each decoded byte came from.
        spans = _spans(data, self._plain)
        shown: list[bytes] = []
        done = 0
        for start, end in spans:
            shown += (data[done:start], MASK.encode())
            done = end
        return b"".join((*shown, data[done:])).decode("utf-8", "surrogatepass") if spans else text

    @overload
    def json(self, value: JsonObject, *, cut: bool = False) -> JsonObject: ...
    @overload
    def json(self, value: Json, *, cut: bool = False) -> Json: ...
    def json(self, value: Json, *, cut: bool = False) -> Json:
        """The value with every string, key and number in it masked. `cut` is as in `text`."""
        return self._json(value, cut) if self._spellings else value

    def _json(self, value: Json, cut: bool) -> Json:
        if isinstance(value, str):
            return self.text(value, cut=cut)
        if isinstance(value, dict):
            return {self.text(key): self._json(item, cut) for key, item in value.items()}
        if isinstance(value, list):
            return [self._json(item, cut) for item in value]
        # A secret of digits may be read as a number.
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value if self.text(str(value)) == str(value) else MASK
        return value

    def _edges(self, text: str) -> str:
        """The text with a piece of a spelling at its beginning or end masked; the mask alone where the whole
        text is such a piece."""
        body = text.strip(CUT_CHARACTER)
        if len(body) >= PIECE and any(body in spelling for spelling in self._spellings):
            return MASK
        least = 1 if len(text) >= SURELY_CUT else PIECE
        front = max((_overlap(spelling, body, least) for spelling in self._spellings), default=0)
        body = MASK + body[front:] if front else text
        back = max((_overlap(body, spelling, least) for spelling in self._spellings), default=0)
        return body[: len(body) - back] + MASK if back else body


def _overlap(before: str, after: str, least: int) -> int:
    """How many characters the end of `before` and the beginning of `after` share; 0 where they are fewer than
    `least`."""
    longest = min(len(before), len(after))
    return next((size for size in range(longest, least - 1, -1) if before.endswith(after[:size])), 0)


# Encodings that leave a secret readable for a person or a program, and that no list of spellings can hold,
# because each character may be written in its own way: escapes of JSON, of JSON in JSON, of HTML and of URLs,
# and line breaks or invisible characters in between. Texts are compared without all that.

_ROUNDS = 4
"""How often escapes are decoded: JSON in JSON in HTML takes three."""
_MAY_ENCODE = re.compile(r"[%\\&\r\n]|[^\x00-\x7f]")
_INVISIBLE = (
    "\u00ad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u2060\u2061\u2062\u2063\u2064\ufeff"
)
_NOISE_SIGNS = tuple(sign.encode() for sign in _INVISIBLE)
_NOISE = re.compile(b"|".join((rb"[\r\n]+", *map(re.escape, _NOISE_SIGNS))))
_LAST_NOISE = re.compile(_NOISE.pattern + rb"|\\+")
_ESCAPE = re.compile(
    rb"%[0-9A-Fa-f]{2}|(?:\\+u[0-9A-Fa-f]{4})+|\\+x[0-9A-Fa-f]{2}|\\+[\"'/\\bfnrt]"
    rb"|&#[0-9]{1,7};|&#[xX][0-9A-Fa-f]{1,6};|&(?:amp|lt|gt|quot|apos);"
)
_LETTERS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_NAMES = {b"&amp;": b"&", b"&lt;": b"<", b"&gt;": b">", b"&quot;": b'"', b"&apos;": b"'"}


def _decoded(found: re.Match[bytes]) -> bytes:
    """What an escape stands for, as UTF-8; the escape itself where it stands for nothing."""
    escape = found[0]
    if escape in _NAMES:
        return _NAMES[escape]
    if escape.startswith(b"%"):
        return bytes.fromhex(escape[1:].decode())
    if escape.startswith(b"&"):
        hexadecimal = escape[2:3] in b"xX"
        number = int(escape[3:-1], 16) if hexadecimal else int(escape[2:-1])
        return chr(number).encode("utf-8", "surrogatepass") if number <= sys.maxunicode else escape
    body = escape.lstrip(b"\\")
    if body.startswith(b"u"):
        units = bytes.fromhex(re.sub(rb"\\+u", b"", escape).decode())
        return units.decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")
    return bytes.fromhex(body[1:].decode()) if body.startswith(b"x") else _LETTERS.get(body, body)


def _nothing(found: re.Match[bytes]) -> bytes:
    return b""


def _plain(data: bytes) -> bytes:
    """The data with its escapes decoded and without breaks, invisible characters and backslashes."""
    for _ in range(_ROUNDS):
        data = _without_noise(data)
        if not any(sign in data for sign in (b"%", b"\\", b"&")):
            return data
        fresh = _ESCAPE.sub(_decoded, data)
        if fresh == data:
            break
        data = fresh
    # How many backslashes stand for one depends on how often a text was escaped: none is compared.
    return _without_noise(data).replace(b"\\", b"")


def _without_noise(data: bytes) -> bytes:
    data = data.translate(None, b"\r\n")
    if not data.isascii():
        for sign in _NOISE_SIGNS:
            data = data.replace(sign, b"")
    return data


def _spans(data: bytes, forms: list[bytes]) -> list[tuple[int, int]]:
    """The parts of the data that stand for one of the forms, in order and without overlap."""
    starts, ends = list(range(len(data))), list(range(1, len(data) + 1))
    for number in range(2 * _ROUNDS + 1):
        noise = _LAST_NOISE if number == 2 * _ROUNDS else _NOISE
        pattern, replace = (_ESCAPE, _decoded) if number % 2 else (noise, _nothing)
        parts: list[bytes] = []
        froms: list[int] = []
        untils: list[int] = []
        done = 0
        for found in pattern.finditer(data):
            begin, end = found.span()
            fresh = replace(found)
            parts += (data[done:begin], fresh)
            froms += starts[done:begin] + [starts[begin]] * len(fresh)
            untils += ends[done:begin] + [ends[end - 1]] * len(fresh)
            done = end
        parts.append(data[done:])
        starts, ends = froms + starts[done:], untils + ends[done:]
        data = b"".join(parts)
    spans: list[tuple[int, int]] = []
    for form in forms:
        at = data.find(form)
        while at >= 0:
            spans.append((starts[at], ends[at + len(form) - 1]))
            at = data.find(form, at + len(form))
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def spellings(secret: str) -> Iterator[str]:
    """The forms in which a secret may appear: raw, reversed, in JSON, in a URL, in hexadecimal, in base64."""
    data = secret.encode("utf-8", "surrogateescape")
    yield secret
    yield secret[::-1]
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    for quoted in (quote(data), quote(data, safe=""), quote_plus(data)):
        yield quoted
        yield re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), quoted)
    yield data.hex()
    yield data.hex().upper()
    for whole in _base64_forms(data):
        yield whole
        yield whole.replace("+", "-").replace("/", "_")


def _base64_forms(data: bytes) -> Iterator[str]:
    # Base64 encodes three bytes at a time, so a secret has three encodings, by where it begins in the
    # encoded text. Only the characters that depend on the secret alone are compared.
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + data).decode()
        yield encoded[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]


def _breakable(secrets: Mapping[str, str]) -> Iterator[str]:
    """The spellings that programs break into lines or escape: the secrets themselves, and in base64."""
    for value in secrets.values():
        yield value
        yield from _base64_forms(value.encode("utf-8", "surrogateescape"))
