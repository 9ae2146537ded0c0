"""Header and terminal title: what has no room beside the root stands below, and what waits stands first."""

from __future__ import annotations

import io

import anyio
import msgspec
import pytest

from flycore.model.approval import Ask
from flycore.model.enums import RequestState, Risk
from flytui.console.controllers.terminal_title import restored_title, title_sequence
from flytui.console.kernel_connection import (
    Connection,
    LostConnection,
    OpenConnection,
    OpeningConnection,
)
from flytui.console.screens.header import SCREENS, alert_lines, header_lines
from flytui.console.state import ConsoleState, SharedState
from flytui.console.terminal_guard import KeyRisk
from flytui.text.lines import Tone, text_of
from kits.fake_kernel import world
from kits.tables import each_row
from kits.values import request_of


@each_row("width", [60, 80, 100, 120, 200])
def test_the_header_keeps_every_fact_it_has_room_for(width: int) -> None:
    desk = ConsoleState(connection=OpenConnection(world(), world()), title="/srv/" + "long/" * 30 + "shop")
    desk.status = anyio.run(world().status)
    head, tabs = (text_of(row) for row in header_lines(desk, "Catalog", width))
    assert "shop" in head
    assert "0 waiting" in head
    assert "policy ok" in head
    assert len(head) <= width
    assert len(tabs) <= width
    for fact in ("box not enforced yet", "leases", "2 agents"):
        assert fact in head + tabs


@each_row("length", range(1, 60))
def test_a_blank_stands_between_the_root_and_the_first_fact(length: int) -> None:
    name = "x" * length
    desk = ConsoleState(connection=OpenConnection(world(), world()), title=name)
    desk.status = anyio.run(world().status)
    head, _ = (text_of(row) for row in header_lines(desk, "Catalog", 120))
    root = next(word for word in head.split() if word.strip("…x") == "")
    assert head[head.index(root) + len(root)] == " "


@each_row("width", [80, 90, 120])
@each_row("waiting", [0, 12])
def test_the_screens_keep_their_whole_names_down_to_80_columns(width: int, waiting: int) -> None:
    desk = ConsoleState(
        connection=OpenConnection(world(), world()),
        title="/srv/" + "long/" * 30 + "shop",
        shared=SharedState(key_risk=KeyRisk(root=True, tiocsti=True)),
    )
    many = "enforced for 10 of 12, degraded for 2 of 12"
    desk.status = msgspec.structs.replace(anyio.run(world().status), sandbox=many, anchor_problem="lost")
    desk.asks = tuple(Ask(request=request_of(f"r{at}"), state=RequestState.WAITING) for at in range(waiting))
    for screen in ("Catalog", "Doctor", "browser.screenshot"):
        head, tabs = (text_of(row) for row in header_lines(desk, screen, width))
        for key, name in SCREENS:
            assert f"{key} {name}" in tabs
        assert screen in tabs or tabs.endswith("…")
        assert f"{waiting} waiting" in head
        assert "log without anchors" in head
        assert len(head) <= width
        assert len(tabs) <= width


@pytest.mark.parametrize("width", [60, 100, 200])
def test_a_log_without_anchors_is_a_problem_in_the_header(width: int) -> None:
    desk = ConsoleState(connection=OpenConnection(world(), world()), title="/srv/shop")
    desk.status = anyio.run(world().status)
    assert "anchors" not in "".join(text_of(row) for row in header_lines(desk, "Catalog", width))
    desk.status = msgspec.structs.replace(
        desk.status, anchor_problem="no anchor can be written to /srv: File exists"
    )
    spans = [part for row in header_lines(desk, "Catalog", width) for part in row]
    assert [part.tone for part in spans if part.text == "log without anchors"] == [Tone.WARN]


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_policy_file_that_waits_is_not_ok_in_the_header(width: int) -> None:
    desk = ConsoleState(connection=OpenConnection(world(), world()), title="/srv/shop")
    desk.status = msgspec.structs.replace(anyio.run(world().status), waiting_rules=2)
    spans = [part for row in header_lines(desk, "Catalog", width) for part in row]
    assert [part.tone for part in spans if part.text == "policy: 2 changes wait"] == [Tone.WARN]
    assert "policy ok" not in "".join(part.text for part in spans)


@pytest.mark.parametrize("away", [0, 25])
def test_the_bar_counts_what_was_turned_away(away: int) -> None:
    desk = ConsoleState(connection=OpenConnection(world(), world()), title="/srv/shop")
    desk.status = msgspec.structs.replace(anyio.run(world().status), turned_away=away)
    desk.asks = tuple(Ask(request=request_of(f"r{at}"), state=RequestState.WAITING) for at in range(5))
    [bar] = [text_of(row) for row in alert_lines(desk, 80)]
    assert "5 requests wait" in bar
    assert ("queue full: 25 turned away" in bar) is bool(away)
    assert len(bar) <= 80


@pytest.mark.parametrize(
    ("waiting", "risk", "said"),
    [
        (0, Risk.LOW, "shop · flytui"),
        (1, Risk.MEDIUM, "1 waiting · type “hello from an agent” into “xterm” · shop · flytui"),
        (2, Risk.HIGH, "▲ 2 waiting · type “hello from an agent” into “xterm” · shop · flytui"),
    ],
)
def test_the_title_says_how_many_wait(waiting: int, risk: Risk, said: str) -> None:
    desk = ConsoleState(connection=OpenConnection(world(), world()), title="/srv/shop")
    requests = (request_of(f"r{at}", risk=risk) for at in range(waiting))
    desk.asks = tuple(Ask(request=request, state=RequestState.WAITING) for request in requests)
    assert title_sequence(desk.shared) == f"\x1b]2;{said}\x07"


def test_a_root_cannot_write_the_title() -> None:
    desk = ConsoleState(
        connection=OpenConnection(world(), world()), title="/srv/sh\x07op\x1b]0;owned\x9c\u202e" + "x" * 500
    )
    sequence = title_sequence(desk.shared)
    assert sequence.removeprefix("\x1b]2;").removesuffix("\x07").isprintable()
    assert len(sequence) < 100


WORLD = OpenConnection(world(), world())


@each_row(
    ("connection", "fact", "alert", "decides"),
    [
        (OpeningConnection(), "starting…", "", False),
        (OpeningConnection("flytui call, pid 77"), "starting…", "waiting for flytui call, pid 77", False),
        (WORLD, "policy ok", "", True),
        (LostConnection(WORLD, 100.0), "kernel gone 5 s", "O opens one here  looking for it 25 s", False),
        (
            LostConnection(WORLD, 100.0, "it was killed", restarts=True),
            "kernel gone 5 s",
            "it was killed; the next one is being started",
            False,
        ),
    ],
)
def test_the_state_of_the_connection_is_drawn(
    connection: Connection, fact: str, alert: str, decides: bool
) -> None:
    desk = ConsoleState(title="/srv/shop", connection=connection, clock=lambda: 105.0)
    if not isinstance(connection, OpeningConnection):
        desk.status = anyio.run(world().status)
    assert fact in "".join(text_of(row) for row in header_lines(desk, "Catalog", 160))
    alerts = "\n".join(text_of(row) for row in alert_lines(desk, 120))
    assert alert in alerts
    assert bool(alert) == bool(alerts)
    assert (not desk.no_decision_reason) is decides


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_title_of_before_comes_back_whatever_ends_the_console() -> None:
    terminal, piped = Terminal(), io.StringIO()
    for stream in (terminal, piped, None):
        with pytest.raises(KeyError), restored_title(stream):
            raise KeyError
    assert terminal.getvalue() == "\x1b[22;2t\x1b[23;2t"
    assert piped.getvalue() == ""
