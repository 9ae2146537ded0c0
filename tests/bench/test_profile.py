"""What the profile counts of a call's memory."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

LARGE = 32 << 20


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The benchmarks are a folder of the repository, and import each other by name."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if name.partition(".")[0] in ("bench", "kernels", "p01_call"):
            del sys.modules[name]


@pytest.mark.anyio
@pytest.mark.usefixtures("beside")
async def test_the_memory_peak_is_that_of_the_counted_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench import profile

    calls: list[int] = []

    @asynccontextmanager
    async def running(*_: object) -> AsyncIterator[None]:
        yield

    def calling(*_: object) -> Callable[[], Awaitable[None]]:
        async def call() -> None:
            calls.append(len(bytes(LARGE)) if len(calls) < profile.WARM_UP else 0)

        return call

    monkeypatch.setattr(profile, "echo_root", lambda base: (base, {}))
    monkeypatch.setattr(profile, "running", running)
    monkeypatch.setattr(profile, "calling", calling)
    ledger = profile.Ledger(is_traced=False)
    tracemalloc.start()
    try:
        await profile.profile(tmp_path, ledger, 3)
    finally:
        tracemalloc.stop()
    assert len(calls) == profile.WARM_UP + 3
    assert 0 <= ledger.peak[profile.AROUND] < LARGE
