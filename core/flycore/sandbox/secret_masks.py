"""Masks over injected secrets: removes them from a tool's output, in the encodings that programs are likely
to use."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import overload
from urllib.parse import quote, quote_plus

from flycore.model.json import MASK, Json, JsonObject

PIECE = 4
"""How many characters a piece of a secret at a cut must have to be masked; fewer would match ordinary
text."""
CUT_CHARACTER = "\ufffd"
"""The character that decoding puts in place of one that was cut through."""


class Masks:
    """Replaces the exact secrets and their encodings by a mask. Without secrets every text stays as it is."""

    # Nothing else is masked: without its paths and hosts a person could not see what a call does.

    def __init__(self, secrets: Mapping[str, str]) -> None:
        spelled = {text for value in secrets.values() for text in spellings(value) if text}
        self._spellings = sorted(spelled, key=len, reverse=True)

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
        return text

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
        front = max((_overlap(spelling, body) for spelling in self._spellings), default=0)
        body = MASK + body[front:] if front else text
        back = max((_overlap(body, spelling) for spelling in self._spellings), default=0)
        return body[: len(body) - back] + MASK if back else body


def _overlap(before: str, after: str) -> int:
    """How many characters the end of `before` and the beginning of `after` share; 0 where they are fewer than
    `PIECE`."""
    longest = min(len(before), len(after))
    return next((size for size in range(longest, PIECE - 1, -1) if before.endswith(after[:size])), 0)


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
    # Base64 encodes three bytes at a time, so a secret has three encodings, by where it begins in the
    # encoded text. Only the characters that depend on the secret alone are compared.
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + data).decode()
        whole = encoded[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]
        yield whole
        yield whole.replace("+", "-").replace("/", "_")
