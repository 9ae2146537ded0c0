"""Nothing in a widget opens files, starts programs, sleeps or talks to the network on the loop's thread."""

from __future__ import annotations

import ast
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

import flytui.console
from flytui.console.catalog.catalog_view import CatalogView
from kits.console import HandClock, console, press, until
from kits.fake_kernel import World, world
from kits.tables import each_row
from kits.values import sample_catalog, stability_of, tool_view

CONSOLE = Path(flytui.console.__file__).parent
BLOCKING = ("open", "os.", "shutil.", "socket.", "subprocess.", "time.sleep", "glob.", "tempfile.", "urllib.")
"""Audit events of calls that wait for something outside the process."""
_watched: list[tuple[int, list[str]]] = []
"""The thread that is watched now, and what it was caught at."""


def _look(event: str, arguments: tuple[object, ...]) -> None:
    if _watched and event.startswith(BLOCKING) and threading.get_ident() == _watched[-1][0]:
        _watched[-1][1].append(f"{event} {arguments[:1]}")


sys.addaudithook(_look)


@contextmanager
def caught(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What this thread does meanwhile that may block. Sleeping has no audit event, so it is replaced."""
    told: list[str] = []

    def sleep(seconds: float) -> None:
        told.append(f"time.sleep {seconds}")

    with monkeypatch.context() as patched:
        patched.setattr(time, "sleep", sleep)
        _watched.append((threading.get_ident(), told))
        try:
            yield told
        finally:
            _watched.pop()


def test_the_watch_sees_what_blocks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with caught(monkeypatch) as told:
        (tmp_path / "file").write_text("")
        time.sleep(9)
        other = threading.Thread(target=(tmp_path / "other").write_text, args=("",))
        other.start()
        other.join()
    (tmp_path / "later").write_text("")
    assert [words.split()[0] for words in told] == ["open", "time.sleep"]


@pytest.mark.long
@pytest.mark.anyio
async def test_ten_thousand_tools_are_walked_without_a_blocking_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    well = stability_of()
    tools = tuple(tool_view(f"family{n % 90:02}.tool{n:05}", "utility.local", well) for n in range(10_000))
    place = World(catalog_value=msgspec.structs.replace(sample_catalog(), capabilities=tools))
    async with console(place, HandClock(), (120, 40)) as (app, pilot):
        view = app.screen.query_one(CatalogView)
        await press(pilot, "down", "enter", "escape", "colon", "escape", "slash", "escape", "g", "g")
        with caught(monkeypatch) as told:
            await press(pilot, "down", "end", "home", "g", "slash", *"l99", "enter", "enter", "escape")
            await press(pilot, "w", "escape", "D", "escape", "s", "colon", "7", "enter", "y", "escape")
            place.publish("catalog.changed")
            place.publish("call.finished")
            await until(pilot, lambda: len(view.tool_list.shown) > 10_000)
    assert told == []


@pytest.mark.anyio
async def test_no_screen_blocks_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(world(), HandClock(), (120, 40)) as (app, pilot):
        keys = ("1", "2", "3", "4", "question_mark", "escape", "1")
        await press(pilot, *keys)
        with caught(monkeypatch) as told:
            await press(pilot, *keys)
        assert app.state.catalog is not None
    assert told == []


OUTSIDE = ("subprocess", "socket", "shutil", "tempfile", "glob", "urllib.request", "http", "requests")
VALUES = (
    "flycore.rpc.methods",
    "flycore.rpc.proxies",
    "flycore.client.audit_reader",
    "flycore.store.json_store",
    "flycore.model.errors",
    "flycore.model",
    "flytui.text.card",
    "flycore.approval.allowance_offer",
    "flycore.approval.leases",
    "flycore.approval.requests",
    "flycore.policy.conditions",
    "flycore.policy.rule_file",
    "flytui.text.filter_query",
    "flycore.catalog.schemas",
)
"""Of the kernel: the Protocol, the log's reader that works in threads, and rooms of pure values."""


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module


@each_row("path", sorted(CONSOLE.rglob("*.py")), ids=lambda path: path.stem)
def test_widgets_import_only_the_client_protocol_and_values(path: Path) -> None:
    for name in _imports(path):
        assert not any(name == bad or name.startswith(f"{bad}.") for bad in OUTSIDE), name
        assert not name.startswith("flycore") or name.startswith(VALUES), name
