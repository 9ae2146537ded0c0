"""Random keys, pastes and clicks on every screen of the console, while the values below it change: none of
them may end it by a defect."""

from __future__ import annotations

import os
import random
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec
import pytest
from textual import events
from textual.geometry import Size
from textual.pilot import Pilot

from flycore.audit.log import AuditLog
from flycore.client.audit_reader import AuditReader
from flycore.model.approval import Lease, StandingRule
from flycore.model.diagnostics import Check, CheckState
from flycore.model.enums import Decision, RequestState, Risk
from flycore.model.question import Block
from flytui.console.app import FlytuiApp
from kits.console import HandClock, console, settle
from kits.fake_kernel import World, world
from kits.values import (
    CALLER,
    NOW,
    loop_question,
    panic_question,
    policy_question,
    request_of,
    sample_activity,
    sample_catalog,
    trust_items,
)

pytestmark = [pytest.mark.anyio, pytest.mark.suite, pytest.mark.long, pytest.mark.timeout(1_200)]
FULL = os.environ.get("FLYTUI_SUITES") == "full"
SEEDS = range(100) if FULL else range(2)
BURSTS = 150 if FULL else 40
NAMED = (
    *("up", "down", "left", "right", "home", "end", "pageup", "pagedown", "tab", "shift+tab"),
    *("enter", "escape", "backspace", "delete", "space", "insert", "f1", "f2", "f5", "ctrl+home", "ctrl+end"),
    *(f"ctrl+{letter}" for letter in "acdefknopqrsuvwxyz"),
)
LETTERS = "".join(map(chr, range(33, 127))) + "éß漢\u0301"
PLACES = (
    "1",
    "1 enter",
    "1 w",
    "1 / a",
    "1 :",
    "1 t",
    "1 E",
    "1 F",
    "1 D",
    "2",
    "2 enter",
    "2 u",
    "2 e",
    "2 l",
)
MORE_PLACES = ("2 r", "2 b", "3", "3 enter", "4", "4 d", "5", "5 /", "5 enter", "7", "7 enter", "T", "P", "?")
ALL_PLACES = (*PLACES, *MORE_PLACES, "ctrl+p", "ctrl+o", "ctrl+x ctrl+x", "2 enter tab", "1 t tab")
SIZES = ((120, 40), (80, 24), (40, 10), (1, 1), (200, 60))


def key_of(name: str) -> events.Key:
    """The event of one key, as the reader of the terminal makes it."""
    character = name if len(name) == 1 else {"space": " ", "enter": "\r", "tab": "\t"}.get(name)
    return events.Key("space" if name == " " else name, character)


class Typist:
    """Somebody who presses anything, with a world that changes meanwhile."""

    def __init__(self, seed: int, app: FlytuiApp, place: World, clock: HandClock) -> None:
        self._chance = random.Random(seed)
        self._app, self._place, self._clock = app, place, clock
        self._numbers = iter(range(1_000_000))
        self.did: list[str] = []
        """What was done last, for the report of a defect."""

    def burst(self) -> None:
        """Press some keys without waiting for any of them, and change something."""
        chance = self._chance
        if chance.random() < 0.3:
            self._keys(chance.choice(ALL_PLACES).split())
        for _ in range(chance.randrange(1, 12)):
            self._keys([chance.choice(NAMED) if chance.random() < 0.4 else chance.choice(LETTERS)])
            if chance.random() < 0.15:
                self._other()
        if chance.random() < 0.5:
            self._change()
        self._clock.advance(chance.choice((0.01, 0.4, 3.0)))

    def _keys(self, names: list[str]) -> None:
        for name in names:
            self._post(key_of(name), name)

    def _post(self, event: events.Event, words: str) -> None:
        self.did.append(words)
        driver = self._app._driver
        assert driver is not None
        event.set_sender(self._app)
        driver.send_message(event)

    def _other(self) -> None:
        chance = self._chance
        x, y = chance.randrange(self._app.size.width), chance.randrange(self._app.size.height)
        if chance.random() < 0.3:
            self._post(
                events.Paste(chance.choice(("pasted", "a\nb\n", "{}", "\x1b[31m", "9" * 300))), "paste"
            )
        elif chance.random() < 0.2:
            size = Size(*chance.choice(SIZES))
            self._post(events.Resize(size, size), f"resize {size}")
        else:
            kind = chance.choice((events.MouseDown, events.MouseUp, events.MouseMove, events.MouseScrollDown))
            mouse = kind(None, x, y, 0, 0, 1, False, False, False, screen_x=x, screen_y=y)
            self._post(mouse, f"{kind.__name__} {x} {y}")

    def _change(self) -> None:
        """Change a part of the world, and tell the console."""
        place, chance = self._place, self._chance
        changes: tuple[tuple[str, Callable[[], None]], ...] = (
            ("approval.asked", self._ask),
            ("approval.withdrawn", self._withdraw),
            ("call.finished", lambda: self._cut("activity_value", sample_activity())),
            ("leases.changed", lambda: self._cut("leases_value", LEASES)),
            ("rules.changed", lambda: self._cut("rules_value", RULES)),
            ("blocks.changed", lambda: self._cut("blocks_value", BLOCKS)),
            ("trust.changed", lambda: self._cut("trust_value", trust_items(3))),
            ("question.asked", lambda: self._cut("questions_value", QUESTIONS)),
            ("catalog.changed", self._cut_catalog),
            ("hands.changed", lambda: setattr(place, "hands_on", not place.hands_on)),
            ("status.changed", lambda: setattr(place, "refuse", chance.choice(("", "", "not now")))),
            ("call.finished", place.call_ends.set),
        )
        kind, change = chance.choice(changes)
        self.did.append(kind)
        change()
        place.publish(kind)

    def _ask(self) -> None:
        risk = self._chance.choice(tuple(Risk))
        self._place.ask_for(request_of(f"r{next(self._numbers)}", risk=risk))

    def _withdraw(self) -> None:
        self._place.asks_value = tuple(
            msgspec.structs.replace(ask, state=RequestState.WITHDRAWN) if self._chance.random() < 0.5 else ask
            for ask in self._place.asks_value[-20:]
        )

    def _cut(self, name: str, whole: tuple[object, ...]) -> None:
        setattr(self._place, name, whole[: self._chance.randrange(len(whole) + 1)])

    def _cut_catalog(self) -> None:
        whole = sample_catalog()
        kept = whole.capabilities[: self._chance.randrange(len(whole.capabilities) + 1)]
        self._place.catalog_value = msgspec.structs.replace(whole, capabilities=kept)


LEASES = tuple(
    Lease(
        id=f"l{number}",
        caller=CALLER,
        tool="computer.mouse",
        scope_digest="d",
        from_request="r17",
        calls_left=7,
        expires_at=NOW + 250,
        created_at=NOW - 50,
    )
    for number in range(3)
)
RULES = tuple(
    StandingRule(
        where=f"/home/me/policy.jsonc:{number}",
        digest="ab" * 32,
        tool="web.search",
        decision=Decision.ALLOW,
        because="fine",
        from_request="r9",
    )
    for number in range(3)
)
BLOCKS = (Block(tool="browser.evaluate", since=NOW - 7200, reason="no scripts"),)
QUESTIONS = (panic_question(), policy_question(), loop_question())
CHECKS = tuple(Check(name=f"check {state}", state=state, message="m", fix="f") for state in CheckState)


@pytest.fixture
def log(tmp_path: Path) -> AuditReader:
    """A log of some lines."""
    folder, anchors = tmp_path / "audit", tmp_path / "anchors.jsonl"
    log = AuditLog.open(folder, anchors, clock=time.time, monotonic=time.monotonic)
    for number in range(30):
        log.append("TOOL_EXECUTED", {"callId": f"c{number}", "tool": "mock.echo", "status": "success"})
    log.close()
    return AuditReader(folder, anchors)


async def works_off(pilot: Pilot[None], app: FlytuiApp) -> None:
    """Let the console handle all that was typed."""
    with anyio.fail_after(60):
        await settle(pilot)
        await pilot.pause(0)


@pytest.mark.parametrize("seed", SEEDS)
async def test_no_key_ends_the_console_by_a_defect(
    seed: int, log: AuditReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = world(
        activity_value=sample_activity(),
        trust_value=trust_items(3),
        questions_value=QUESTIONS,
        leases_value=LEASES,
        rules_value=RULES,
        blocks_value=BLOCKS,
        checks_value=CHECKS,
    )
    clock = HandClock()
    # Leaving is what some of the keys are for.
    monkeypatch.setattr(FlytuiApp, "exit", lambda *_, **__: None)
    async with console(place, clock, SIZES[0], log) as (app, pilot):
        typist = Typist(seed, app, place, clock)
        for _ in range(BURSTS):
            typist.burst()
            await works_off(pilot, app)
            if app.defect is not None:
                told = "".join(traceback.format_exception(app.defect))
                pytest.fail(f"seed {seed} on {app.screen!r}, after {typist.did[-40:]}:\n{told}")
        monkeypatch.undo()
