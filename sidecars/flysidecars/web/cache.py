"""A cache of answers for `config.cacheTtlMs`, in a persistent process, which serves one caller."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from flysidecars.sdk import Call, JsonObject
from flysidecars.web.settings import read_settings

MAX_ANSWERS = 64
MAX_BYTES = 16 * 1024 * 1024
"""Bytes of all answers in the cache, as JSON."""


class Cache:
    """Answers by tool, input and config. The oldest are dropped first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[str, tuple[float, str]] = {}
        self._bytes = 0

    def get_or_run(self, call: Call, work: Callable[[Call], JsonObject]) -> JsonObject:
        """The answer of `work`, or an earlier one with `cached` set. Failures are not cached."""
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
        while len(self._kept) > MAX_ANSWERS or self._bytes > MAX_BYTES:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: str) -> None:
        if (old := self._kept.pop(key, None)) is not None:
            self._bytes -= len(old[1])


CACHE = Cache()
"""The cache of this process."""
