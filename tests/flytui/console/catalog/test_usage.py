"""A tool's page says how it was used, from the log's own sums."""

from __future__ import annotations

import pytest

from flycore.model.audit import LastError, Metrics, ToolMetrics
from flycore.model.call import Activity
from flytui.console.catalog.details import ToolUsage, usage_lines
from flytui.console.widgets.virtual_list import VirtualList
from flytui.text.lines import text_of
from kits.console import HandClock, console, drawn, press, until
from kits.fake_kernel import world
from kits.values import sample_activity

pytestmark = pytest.mark.anyio
HASHED = ToolMetrics(
    tool="file.hash",
    calls=12,
    success=9,
    failed=1,
    denied=2,
    unavailable=0,
    other=0,
    open=0,
    ran=10,
    total_ms=1_200,
    average_ms=120.0,
    p95_ms=300,
    last_executed="2023-11-14T22:10:20.000000Z",
    last_error=LastError(at="2023-11-14T22:08:20.000000Z", code="crashed", message="\x1b[31mended\u202e"),
)


def told(*tools: ToolMetrics) -> Metrics:
    return Metrics(since="", until="", lines=0, unreadable=0, tools=tools)


async def test_details_show_metrics_and_recent_calls_and_follow_them() -> None:
    place = world(metrics_value=told(HASHED), activity_value=sample_activity())
    async with console(place, HandClock(), (120, 60)) as (app, pilot):
        rows = app.query_one("#catalog-rows", VirtualList)
        await press(pilot, "slash", *"file.hash", "enter")
        await until(pilot, lambda: rows.row is not None and "file.hash" in rows.row.key)
        await press(pilot, "enter")
        await until(pilot, lambda: "12 calls: 9 success, 1 failed, 2 denied" in drawn(app, "#page"))
        page = drawn(app, "#page")
        assert "120 ms average" in page or "120ms average" in page
        assert "3m ago" in page
        assert "crashed: " in page
        assert not {"\x1b", "\u202e"} & set(page)
        assert "✓ success" in page
        assert "claude (pid 4121)" in page
        place.metrics_value = told(HASHED.__class__(**{**_fields(HASHED), "calls": 13, "success": 10}))
        place.publish("call.finished")
        await until(pilot, lambda: "13 calls: 10 success" in drawn(app, "#page"))


def _fields(metrics: ToolMetrics) -> dict[str, object]:
    return {name: getattr(metrics, name) for name in metrics.__struct_fields__}


def test_a_tool_that_nobody_called_says_so() -> None:
    calls: list[Activity] = []
    assert "none yet" in text_of(usage_lines(ToolUsage(None, calls), 0.0, 80)[-1])


async def test_calls_of_earlier_sessions_come_when_the_log_was_read() -> None:
    place = world()
    async with console(place, HandClock()) as (app, pilot):
        await press(pilot, "3")
        place.activity_value = sample_activity()
        place.publish("history.read")
        await until(pilot, lambda: app.query_one("#call-rows", VirtualList).row_count > 0)
