"""Answers kept for `config.cacheTtlMs` in a process that stays; it serves one caller."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from flysidecars.sdk import Call, JsonObject
from flysidecars.web.settings import read_settings

MOST_ANSWERS = 64
MOST_BYTES = 16 * 1024 * 1024
"""Of all answers that are kept, as JSON."""


class Cache:
    """Answers by tool, input and config, the oldest out first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[str, tuple[float, str]] = {}
        self._bytes = 0

    def through(self, call: Call, work: Callable[[Call], JsonObject]) -> JsonObject:
        """What the work answers, or answered not long ago (`cached`). Failures are not kept."""
        ttl_ms = read_settings(call.config).cache_ttl_ms
        if not ttl_ms or not call.persistent:
            return work(call)
        key = json.dumps([call.tool, call.input, call.config], sort_keys=True)
        known = self._kept.get(key)
        if known is not None and self._clock() < known[0]:
            answer: JsonObject = json.loads(known[1])
            return {**answer, "cached": True}
        answer = work(call)
        self._keep(key, answer, self._clock() + ttl_ms / 1000)
        return answer

    def _keep(self, key: str, answer: JsonObject, until: float) -> None:
        self._drop(key)
        text = json.dumps(answer)
        self._kept[key] = (until, text)
        self._bytes += len(text)
        while len(self._kept) > MOST_ANSWERS or self._bytes > MOST_BYTES:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: str) -> None:
        if (old := self._kept.pop(key, None)) is not None:
            self._bytes -= len(old[1])


CACHE = Cache()
"""Of this process."""
