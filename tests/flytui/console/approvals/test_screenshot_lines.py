"""A card's picture of the screen: drawn with its cross, part of what has to be read, and never in the way."""

from __future__ import annotations

import msgspec
import pytest

from flycore.model.approval import ApprovalRequest, Preview
from flycore.model.call import Picture
from flycore.model.enums import Risk
from flytui.console.approvals.batch_screen import exclusion_reason
from flytui.console.approvals.card_lines import LEAST_ROWS, CardView, body_of, crop_lines
from flytui.console.approvals.request_screen import RequestScreen
from flytui.console.screens.armed import ArmedLines
from flytui.text.card import CardStyle
from flytui.text.lines import text_of, width_of
from kits.console import HandClock, console, drawn, press, until
from kits.fake_kernel import world
from kits.values import request_of

RED = Picture(width=96, height=48, rgb=b"\xff\x00\x00" * (96 * 48))
BLUE = Picture(width=96, height=48, rgb=b"\x00\x00\xff" * (96 * 48))


def pointing(**more: object) -> ApprovalRequest:
    """A click at a point that was seen."""
    made = request_of(tool="computer.mouse", input={"action": "click", "x": 5, "y": 6})
    preview = Preview(window_id="7", title="Checkout", pid=70, over_id="9", over="Cook\u202eie")
    subject = msgspec.structs.replace(made.subject, preview=preview)
    given = {"subject": subject, "crop": RED, "cross": (48, 24), **more}
    return msgspec.structs.replace(made, **given)


def blocks(request: ApprovalRequest, width: int, height: int = 0) -> list[int]:
    """Indexes of the lines that hold cells of a picture."""
    rows = body_of(request, width, CardView(), height=height).lines
    return [at for at, row in enumerate(rows) if any(part.ink for part in row)]


@pytest.mark.parametrize(("width", "height"), [(120, 60), (80, 24), (60, 12), (30, 0)])
def test_the_picture_stands_after_the_input_and_before_the_reach(width: int, height: int) -> None:
    rows = body_of(pointing(), width, CardView(), height=height).lines
    words = [text_of(row) for row in rows]
    seen = blocks(pointing(), width, height)
    reach = next(at for at, text in enumerate(words) if text.strip().startswith("reach"))
    there = next(at for at, text in enumerate(words) if "Checkout" in text)
    assert there < seen[0] <= seen[-1] < reach
    assert seen == list(range(seen[0], seen[-1] + 1))
    assert len(seen) >= min(LEAST_ROWS, 5)
    assert all(width_of(row) <= width for row in rows)
    assert any("⟦U+202E⟧" in text for text in words)


def test_it_takes_only_the_lines_that_are_free() -> None:
    plain = len(body_of(pointing(crop=None, cross=None), 120, CardView()).lines)
    assert len(body_of(pointing(), 120, CardView(), height=plain + 10).lines) <= plain + 10
    assert len(blocks(pointing(), 120, 0)) == LEAST_ROWS
    assert len(blocks(pointing(), 120, 200)) > LEAST_ROWS


def test_a_drag_shows_both_ends() -> None:
    both = pointing(crop_to=BLUE, cross_to=(1, 1))
    inks = [part.ink for row in body_of(both, 120, CardView()).lines for part in row if part.ink]
    assert {ink.fore for ink in inks} >= {(255, 0, 0), (0, 0, 255)}
    assert len(blocks(both, 120)) == 2 * LEAST_ROWS


def test_why_there_is_none_is_said_and_colours_are_not_needed() -> None:
    none = pointing(crop=None, cross=None, no_crop="the X server \x1b[2J does not answer")
    words = "\n".join(text_of(row) for row in body_of(none, 80, CardView()).lines)
    assert "no picture of the screen" in words
    assert "\x1b" not in words
    grey = crop_lines(pointing(), CardStyle.CROP, 70, 8, colours=False)
    assert grey
    assert not any(part.ink for row in grey for part in row)
    assert crop_lines(pointing(), CardStyle.PLAIN, 70, 8, colours=True) == []


def test_a_place_on_the_screen_is_approved_on_its_own_card_alone() -> None:
    medium = msgspec.structs.replace(pointing(), risk=Risk.MEDIUM)
    assert "its own card" in exclusion_reason(medium)


@pytest.mark.anyio
@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 20)])
async def test_high_risk_waits_until_what_follows_the_picture_was_read(size: tuple[int, int]) -> None:
    place, clock = world(), HandClock()
    request = pointing(crop_to=BLUE, cross_to=(9, 9))
    async with console(place, clock, size=size) as (app, pilot):
        place.ask_for(request)
        await until(pilot, lambda: isinstance(app.screen, RequestScreen) and app.screen.query(ArmedLines))
        lines = app.screen.query_one(ArmedLines)
        await until(pilot, lambda: lines.arming.shown_at is not None)
        long = len(lines.rows) > lines.size.height
        assert lines.arming.end_seen is not long
        await press(pilot, "end")
        clock.advance(2)
        await until(pilot, lambda: lines.arming.end_seen)
        await until(pilot, lambda: "keys ready ●" in drawn(app, "#card-keys"))
