"""The card's further answers: forms with a summary, edit, block, hold, and what is shown of them."""

from __future__ import annotations

import random

import msgspec
import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from flycore.model.approval import UNTIL_LEFT, Answer, ApprovalRequest, Ask, Checks, LeaseTerms, RuleTerms
from flycore.model.enums import Choice, Decision, LeaseScope, RequestState, Risk
from flytui.console.app import FlytuiApp
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.approvals.terms_screen import RuleScreen, TermsScreen
from flytui.console.forms.json_editor import EditInputScreen, escape_invisible, json_text, read_object
from flytui.console.screens.armed import ArmedLines
from kits.console import HandClock, console, drawn, press, read_through, until
from kits.fake_kernel import World, world
from kits.tables import each_row
from kits.values import CALLER, request_of

pytestmark = pytest.mark.anyio
QUICK = ["a", "k", "enter", "space", "up", "down", "left", "right", "tab", "escape", "l", "u", "e", "b", "x"]


def quiet(id: str = "r1", **more: object) -> ApprovalRequest:
    """A request that one key approves."""
    return request_of(id, **{"risk": Risk.MEDIUM, "letter": "", **more})


def shown(app: FlytuiApp) -> bool:
    """Whether what is to be armed on the present screen has been painted."""
    return any(lines.arming.shown_at is not None for lines in app.screen.query(ArmedLines))


async def opened(app: FlytuiApp, pilot: Pilot[None], place: World, *requests: ApprovalRequest) -> None:
    """The first card is on screen, painted and armed."""
    place.ask_for(*requests)
    await until(pilot, lambda: isinstance(app.screen, RequestScreen))
    await until(pilot, lambda: shown(app))


async def armed(app: FlytuiApp, pilot: Pilot[None], clock: HandClock) -> None:
    """What is on screen is painted and read, and its keys count."""
    await until(pilot, lambda: shown(app))
    await press(pilot, "end")
    await until(pilot, lambda: any(lines.arming.end_seen for lines in app.screen.query(ArmedLines)))
    clock.advance(5)


def summary(app: FlytuiApp) -> str:
    """The summary's text, its lines joined."""
    return " ".join(drawn(app, "#standing").split())


async def typed(pilot: Pilot[None], text: str) -> None:
    """A person types words."""
    await press(pilot, *("space" if letter == " " else letter for letter in text))


async def test_a_lease_of_a_host_with_pinned_input_until_the_caller_leaves() -> None:
    place, clock = world(), HandClock()
    asked = quiet(tool="web.fetch", host="docs.example", input={"url": "https://Docs.Example/a", "raw": True})
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, asked)
        clock.advance(5)
        await press(pilot, "l", "e")
        await press(pilot, "right", "right", "right", "down", "pageup", "down", "right", "down", "space")
        assert "[x]" in drawn(app, "#standing")
        await press(pilot, "enter")
        assert '{"properties": {"raw": {"const": true}}, "required": ["raw"]}' in summary(app)
        assert "addresses of docs.example" in summary(app)
        assert "until the caller's process has ended, at most 20 calls" in summary(app)
        await press(pilot, "a")
        assert place.decided == []
        await armed(app, pilot, clock)
        await press(pilot, "a")
        await until(pilot, lambda: place.decided)
        await until(pilot, lambda: "allowed for a while" in drawn(app, "#alert"))
    [(_, digest, answer)] = place.decided
    assert digest == asked.subject_digest
    assert answer.lease == LeaseTerms(
        minutes=UNTIL_LEFT,
        calls=20,
        scope=LeaseScope.HOST,
        condition={"properties": {"raw": {"const": True}}, "required": ["raw"]},
    )


async def test_a_lease_offers_only_what_the_request_has() -> None:
    place, clock = world(), HandClock()
    nobody = msgspec.structs.replace(CALLER, pid=0)
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, quiet(caller=nobody, masked=("/text",)))
        clock.advance(5)
        await press(pilot, "l", "e")
        shown = drawn(app, "#standing")
        assert "15 min" in shown
        assert "action" in shown
        for word in ("caller leaves", "group", "host", "text"):
            assert word not in shown
        await press(pilot, *["right"] * 9, "enter")
        assert "60 minutes" in summary(app)


async def test_a_lease_of_the_tools_exclusive_group() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, quiet(group="desktop"))
        clock.advance(5)
        await press(pilot, "l", "e", "down", "down", "right", "enter")
        assert "every tool of computer.native in the group desktop" in summary(app)
        await armed(app, pilot, clock)
        await press(pilot, "a")
        await until(pilot, lambda: place.decided)
    [(_, _, answer)] = place.decided
    assert answer.lease is not None
    assert answer.lease.scope is LeaseScope.GROUP


async def test_the_lease_comes_first_for_what_is_asked_often() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, quiet(checks=Checks(approved=3)))
        keys = drawn(app, "#card-keys")
        assert keys.index("allow for a while") < keys.index("approve once")


async def test_a_rule_is_written_from_a_summary_without_input_fields() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, request_of())
        clock.advance(5)
        await press(pilot, "u", "enter")
        assert "say why" in drawn(app, "#standing-keys")
        await press(pilot, "right", "down", "right", "down", "right", "down", "right", "down", "space", "tab")
        await typed(pilot, "a k not now")
        assert app.screen.query_one(Input).value == "a k not now"
        await press(pilot, "enter")
        assert not app.screen.query_one(Input).display
        shown = summary(app)
        for words in (
            "deny: such calls are refused without asking you",
            "every tool whose name begins with computer.",
            "every caller",
            'action is exactly "type"',
            "until the end of 2023-11-21",
            "a k not now",
        ):
            assert words in shown
        await press(pilot, "a", "k", "enter")
        assert place.decided == []
        await armed(app, pilot, clock)
        await press(pilot, "a")
        clock.advance(1)
        await press(pilot, "k")
        await until(pilot, lambda: place.decided)
        await until(pilot, lambda: "rule written" in drawn(app, "#alert"))
    [(_, _, answer)] = place.decided
    assert answer.choice is Choice.RULE
    assert answer.rule == RuleTerms(
        decision=Decision.DENY,
        tool="computer.*",
        because="a k not now",
        when={"properties": {"action": {"const": "type"}}, "required": ["action"]},
        expires="2023-11-21",
    )


async def test_a_rule_begins_with_the_narrowest() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, quiet())
        clock.advance(5)
        await press(pilot, "u", "tab", "x", "enter")
        assert isinstance(app.screen, RuleScreen)
        terms = app.screen.terms
    assert (terms.decision, terms.tool, terms.caller) == (
        Decision.ALLOW,
        "computer.keyboard",
        CALLER.executable,
    )
    assert terms.expires == "2023-11-15"


@pytest.mark.parametrize("program", ["/srv/*", "*", ""])
async def test_a_program_that_no_pattern_means_is_not_offered(program: str) -> None:
    place, clock = world(), HandClock()
    caller = msgspec.structs.replace(CALLER, executable=program, program=program or "unknown")
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, quiet(caller=caller))
        clock.advance(5)
        await press(pilot, "u")
        assert isinstance(app.screen, RuleScreen)
        assert app.screen.terms.caller == ""
        assert "this program" not in drawn(app, "#standing")


async def test_a_rule_that_was_not_written_is_not_said_to_be() -> None:
    place, clock = world(refuse="the policy file does not parse"), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, quiet())
        clock.advance(5)
        await press(pilot, "u", "tab", "x", "enter")
        await armed(app, pilot, clock)
        await press(pilot, "a")
        await until(pilot, lambda: "the policy file does not parse" in drawn(app, "#standing-keys"))
        assert isinstance(app.screen, RuleScreen)
        assert app.screen.query_one(Input).value == "x"
        await press(pilot, "escape")
        await until(pilot, lambda: isinstance(app.screen, RequestScreen))
        assert "written" not in drawn(app, "#card-keys")
    assert place.asks_value[0].state is RequestState.WAITING


@pytest.mark.parametrize("keys", [("l", "e"), ("u",)])
async def test_escape_leads_from_the_summary_to_the_form_to_the_card(keys: tuple[str, ...]) -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, quiet())
        clock.advance(5)
        await press(pilot, *keys, "tab", "x", "enter")
        await armed(app, pilot, clock)
        await press(pilot, "escape")
        assert isinstance(app.screen, TermsScreen)
        clock.advance(5)
        await press(pilot, "a", "escape")
        assert isinstance(app.screen, RequestScreen)
    assert place.decided == []


async def test_a_summary_has_to_be_read_to_its_end_even_for_low_risk() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock, (60, 16)) as (app, pilot):
        await opened(app, pilot, place, quiet(input={"text": "word " * 300}))
        clock.advance(5)
        await press(pilot, "l", "e", "down", "down", "space", "enter")
        await until(pilot, lambda: shown(app))
        clock.advance(5)
        await press(pilot, "a")
        await pilot.pause()
        assert place.decided == []
        assert "read to the last line" in drawn(app, "#standing-keys")
        assert app.screen.query_one("#standing-keys").region.bottom <= 16


async def test_hands_on_the_machine_kill_a_summary() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, quiet())
        clock.advance(5)
        await press(pilot, "l")
        await armed(app, pilot, clock)
        place.hands_on = True
        place.publish("hands.changed", on=True)
        await until(pilot, lambda: "hands on the machine" in drawn(app, "#standing-keys"))
        await press(pilot, "a")
        await pilot.pause()
    assert place.decided == []


async def test_an_edited_input_comes_back_as_a_new_card() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, quiet())
        clock.advance(5)
        await press(pilot, "e")
        area = app.screen.query_one(TextArea)
        assert read_object(area.text) == {"action": "type", "text": "hello from an agent"}
        await press(pilot, "enter", "backspace", "shift+tab", "ctrl+a", "tab", "enter")
        assert isinstance(app.screen, EditInputScreen)
        assert (place.edited, place.decided) == ([], [])
        area.text = '{"action": "type", '
        await press(pilot, "f2")
        assert "no JSON" in drawn(app, "#edit-keys")
        area.text = '{"action": "type", "text": "bye"}'
        await press(pilot, "f2")
        await until(pilot, lambda: isinstance(app.screen, RequestScreen))
        await until(pilot, lambda: "edited by you" in drawn(app, "#card"))
        await press(pilot, "a")
        assert place.decided == []
        await armed(app, pilot, clock)
        await press(pilot, "a")
        await until(pilot, lambda: place.decided)
    assert place.edited == [("r1", quiet().subject_digest, {"action": "type", "text": "bye"})]
    assert place.decided[0][1] == place.asks_value[0].request.subject_digest != quiet().subject_digest


async def test_what_the_kernel_refuses_of_an_edit_is_shown_beside_it() -> None:
    place, clock = world(refuse="policy denies this input"), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, quiet())
        clock.advance(5)
        await press(pilot, "e", "ctrl+s")
        await until(pilot, lambda: "policy denies this input" in drawn(app, "#edit-keys"))
        assert isinstance(app.screen, EditInputScreen)
        await press(pilot, "escape")
        assert isinstance(app.screen, RequestScreen)
    assert place.decided == []


async def test_pasted_text_is_data_in_the_edit_form() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, quiet())
        clock.advance(5)
        await press(pilot, "e")
        area = app.screen.query_one(TextArea)
        area.text = ""
        app.post_message(events.Paste('{"a": "x\u202ey"}\x1b\r\n\t'))
        await until(pilot, lambda: area.text)
        assert area.text == '{"a": "x\\u202ey"}\\u001b\n    '
        assert isinstance(app.screen, EditInputScreen)
    assert (place.edited, place.decided) == ([], [])


async def test_a_masked_input_is_not_offered_for_editing() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, quiet(masked=("/text",)))
        clock.advance(5)
        await press(pilot, "e")
        assert isinstance(app.screen, RequestScreen)
        assert "masked fields cannot be edited" in drawn(app, "#card-keys")


async def test_deny_for_ten_minutes_is_one_key() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, quiet())
        clock.advance(0.1)
        await press(pilot, "t")
        await until(pilot, lambda: "denied for 10 minutes" in drawn(app, "#alert"))
    [(_, _, answer)] = place.decided
    assert answer == Answer(choice=Choice.DENY, deny_minutes=10)


@pytest.mark.parametrize(
    ("second", "after", "blocks"),
    [("b", 1.0, True), ("b", 0.1, False), ("b", 9.0, False), ("enter", 1.0, False), ("y", 1.0, False)],
)
async def test_block_wants_a_second_b(second: str, after: float, blocks: bool) -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, quiet())
        clock.advance(5)
        await press(pilot, "b")
        assert "for every caller" in drawn(app, "#card-keys")
        clock.advance(after)
        await press(pilot, second)
        await pilot.pause()
        assert [answer.choice for _, _, answer in place.decided] == ([Choice.BLOCK] if blocks else [])


async def test_held_stands_in_the_title_and_the_key_releases() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, quiet())
        assert "ends in" in drawn(app, "#card-title")
        clock.advance(5)
        await press(pilot, "h")
        await until(pilot, lambda: "held" in drawn(app, "#card-title"))
        assert "ends in" not in drawn(app, "#card-title")
        assert "h release" in drawn(app, "#card-keys")
        await press(pilot, "h")
        await until(pilot, lambda: "ends in" in drawn(app, "#card-title"))


async def test_folded_calls_and_a_ticket_are_said_on_the_card() -> None:
    place, clock = world(), HandClock()
    place.asks_value = (Ask(request=quiet(), state=RequestState.WAITING, count=3, ticket=True),)
    async with console(place, clock) as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, RequestScreen))
        title = drawn(app, "#card-title")
        assert "3 identical calls wait for this answer" in title
        assert "the caller comes back for the answer" in title


@pytest.mark.parametrize("size", [(80, 24), (60, 20)])
@pytest.mark.parametrize("key", ["l", "u", "e"])
async def test_every_form_shows_its_keys_at_every_size(size: tuple[int, int], key: str) -> None:
    place, clock = world(), HandClock()
    async with console(place, clock, size) as (app, pilot):
        await opened(app, pilot, place, quiet(input={f"key{n}": "value" * 9 for n in range(40)}))
        assert isinstance(app.screen, RequestScreen)
        await read_through(pilot, app.screen._card)
        clock.advance(5)
        await press(pilot, *(["l", "e"] if key == "l" else [key]), *["down"] * 30)
        await pilot.pause()
        foot = app.screen.query_one("#edit-keys" if key == "e" else "#standing-keys")
        assert "Esc back" in drawn(app, f"#{foot.id}")
        assert foot.region.bottom <= size[1]
        if key != "e":
            body = app.screen.query_one("#standing", ArmedLines)
            here = next(
                at for at, row in enumerate(drawn(app, "#standing").split("\n")) if row.startswith("▌")
            )
            assert body.scroll_offset.y <= here < body.scroll_offset.y + body.size.height


@pytest.mark.suite
@pytest.mark.parametrize("open_with", ["l", "u", "e", "b"])
async def test_a_typist_with_short_gaps_approves_nothing_in_any_form(open_with: str) -> None:
    chance = random.Random(ord(open_with))
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, quiet())
        clock.advance(5)
        await press(pilot, open_with)
        for _ in range(60):
            clock.advance(chance.uniform(0.01, 0.49))
            await press(pilot, chance.choice(QUICK), patience=60)
            if isinstance(app.screen, RequestScreen):
                await press(pilot, open_with, patience=60)
    approvals = [answer for _, _, answer in place.decided if answer.choice is not Choice.BLOCK]
    assert approvals == []


@each_row(
    "text", ["[1]", "7", '{"a": 1, "a": 2}', '{"a": NaN}', "", "{" * 5000 + "}" * 5000, '{"a": [' * 5000]
)
def test_text_that_is_no_object_is_refused_in_words(text: str) -> None:
    assert isinstance(read_object(text), str)


@each_row(
    "value",
    [
        "plain",
        "привет, мир\nпривет",
        "x\u202ey",
        "p\u0430ypal",
        "\x7f\x00\x1b",
        "\U000e0041",
        "⟦U+0041⟧",
        "a      b",
    ],
)
def test_the_text_to_edit_means_the_input_and_can_be_seen(value: str) -> None:
    text = json_text({value: [value]})
    assert read_object(text) == {value: [value]}
    assert all(character.isprintable() or character == "\n" for character in text)
    assert escape_invisible(text) == text


async def test_a_lease_begins_with_its_summary_and_escape_leads_back_to_the_card() -> None:
    place, clock = world(), HandClock()
    async with console(place, clock) as (app, pilot):
        await opened(app, pilot, place, quiet())
        clock.advance(5)
        await press(pilot, "l", "a")
        await armed(app, pilot, clock)
        assert "change" in drawn(app, "#standing-keys")
        assert place.decided == []
        await press(pilot, "escape")
        assert isinstance(app.screen, RequestScreen)
    assert place.decided == []
