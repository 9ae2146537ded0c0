"""What counts as large, and that work on it leaves the event loop free."""

from __future__ import annotations

import threading

import anyio
import pytest

from flycore.model.json import Json
from flycore.model.large_values import is_large, is_large_text, run_aside
from kits.tables import each_row


@each_row(
    "value",
    [
        ["x" * 70_000],
        {"k" * 70_000: 1},
        [0] * 5_000,
        {str(number): 0 for number in range(2_500)},
        [[[0]] * 1_000] * 3,
        [{"a": 1}] * 2_000,
    ],
)
def test_large(value: Json) -> None:
    assert is_large(value)


@each_row("value", [None, 1, "x" * 60_000, [0] * 1_000, {"a": ["b"] * 900}])
def test_small(value: Json) -> None:
    assert not is_large(value)


def test_small_text_of_many_values_is_large() -> None:
    assert is_large_text(b"[" + b"0," * 5_000 + b"0]")
    assert is_large_text(b'"' + b"x" * 65_536 + b'"')
    assert not is_large_text(b"[" + b"0," * 2_000 + b"0]")


@pytest.mark.anyio
async def test_large_work_is_done_in_another_thread() -> None:
    assert await run_aside(False, threading.get_ident) == threading.get_ident()
    assert await run_aside(True, threading.get_ident) != threading.get_ident()


@pytest.mark.anyio
async def test_the_loop_goes_on_meanwhile() -> None:
    gate = threading.Event()
    ended: list[bool] = []

    async def work() -> None:
        ended.append(await run_aside(True, gate.wait, 60.0))

    async with anyio.create_task_group() as group:
        for _ in range(4):  # more than there are threads
            group.start_soon(work)
        await anyio.lowlevel.checkpoint()
        gate.set()
    assert ended == [True] * 4
