"""Takes injected secrets out of whatever a tool said, in the spellings a program is likely to give them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import overload
from urllib.parse import quote, quote_plus

from flycore.model.canonical import Json, JsonObject

MASK = "•••"


class Masks:
    """Replaces exact values and their encodings. Without secrets every text passes as it is.

    Nothing else is masked: a path, a host or a structure that was hidden would hide what a call does.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        spelled = {text for value in secrets.values() for text in spellings(value) if text}
        self._spellings = sorted(spelled, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, self._spellings))) if spelled else None

    @property
    def longest(self) -> int:
        """Characters of the longest spelling, 0 without secrets."""
        return len(self._spellings[0]) if self._spellings else 0

    def text(self, text: str) -> str:
        """The text with every spelling replaced; longer ones first, so that no rest of one remains."""
        for spelling in self._spellings:
            if spelling in text:
                text = text.replace(spelling, MASK)
        return text

    @overload
    def json(self, value: JsonObject) -> JsonObject: ...
    @overload
    def json(self, value: Json) -> Json: ...
    def json(self, value: Json) -> Json:
        """The value with every string, key and number in it masked."""
        return self._json(value) if self._spellings else value

    def _json(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self._json(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._json(item) for item in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value if self.text(str(value)) == str(value) else MASK
        return value

    def split(self, text: str) -> tuple[str, str]:
        """What of a running text can be shown now, masked, and what has to wait for more.

        A spelling that begins before the last `longest - 1` characters is complete, whichever it is.
        """
        if self._pattern is None:
            return text, ""
        safe = max(0, len(text) - (self.longest - 1))
        shown: list[str] = []
        at = 0
        for match in self._pattern.finditer(text):
            if match.start() >= safe:
                break
            shown += (text[at : match.start()], MASK)
            at = match.end()
        cut = max(at, safe)
        return "".join((*shown, text[at:cut])), text[cut:]


class StreamMask:
    """Masks a text that comes in pieces: a secret split over two pieces is masked all the same."""

    def __init__(self, masks: Masks) -> None:
        self._masks = masks
        self._held = ""

    def feed(self, text: str) -> str:
        """What may be shown after this piece; the end of it may be held back."""
        shown, self._held = self._masks.split(self._held + text)
        return shown

    def flush(self) -> str:
        """The rest, at the end of the stream."""
        rest, self._held = self._held, ""
        return self._masks.text(rest)


def spellings(secret: str) -> Iterator[str]:
    """The ways a secret is written: raw, JSON, URL, hex, backwards, base64 wherever it starts in a text."""
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
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + data).decode()
        whole = encoded[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]
        yield whole
        yield whole.replace("+", "-").replace("/", "_")
