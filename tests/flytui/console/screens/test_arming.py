"""The arming machine: what a key may decide, at every time and in every order."""

from __future__ import annotations

import itertools
import os
import random

import pytest

from flycore.model.approval import LETTERS
from flycore.model.enums import Risk
from flytui.console.screens.arming import (
    CODE_UNTIL_S,
    CONFIRM_FROM_S,
    CONFIRM_UNTIL_S,
    QUIET_S,
    VISIBLE_S,
    ArmingState,
    KeyEffect,
)
from kits.tables import each_row

FULL = os.environ.get("FLYTUI_SUITES") == "full"
KEYS = [*"abcdefghijklmnopqrstuvwxyz", "enter", "space", "escape", "up", "down", "tab", "backspace", "ctrl+a"]


def read_card(risk: Risk, letter: str = "", at: float = 0.0) -> ArmingState:
    """A card that was painted at `at` and read to its end."""
    return ArmingState(risk, letter, end_seen=True).with_painted(at)


@each_row(
    ("visible", "quiet", "armed"),
    [
        (VISIBLE_S + 0.001, QUIET_S + 0.001, True),
        (VISIBLE_S + 5, QUIET_S + 0.001, True),
        (VISIBLE_S - 0.01, QUIET_S + 5, False),
        (VISIBLE_S, QUIET_S - 0.01, False),
        (60.0, 0.0, False),
    ],
)
def test_approve_arms_only_after_both_times(visible: float, quiet: float, armed: bool) -> None:
    now = 100.0
    card = read_card(Risk.MEDIUM, at=now - visible).with_key(now - quiet)
    assert (card.blocked_reason(now) == "") is armed
    assert (card.press("a", now)[1] is KeyEffect.APPROVED) is armed


@each_row("key", [key for key in KEYS if key != "a"])
@each_row("risk", list(Risk))
def test_no_other_key_approves_or_opens(key: str, risk: Risk) -> None:
    card = read_card(risk, {Risk.HIGH: "k", Risk.CRITICAL: "kxyz"}.get(risk, ""))
    assert card.press(key, 50.0)[1] is KeyEffect.NOTHING


def test_a_key_pressed_before_the_card_was_painted_is_dropped() -> None:
    card = read_card(Risk.LOW, at=100.0)
    assert not card.belongs_to_card(99.9)
    assert card.press("a", 99.9)[1] is KeyEffect.NOTHING
    assert ArmingState(Risk.LOW, end_seen=True).press("a", 99.9)[1] is KeyEffect.NOTHING


def test_a_dropped_key_restarts_the_quiet() -> None:
    card, did = read_card(Risk.LOW).press("a", VISIBLE_S - 0.1)
    assert did is KeyEffect.NOTHING
    assert card.press("a", VISIBLE_S + 0.1)[1] is KeyEffect.NOTHING
    assert card.press("a", VISIBLE_S - 0.1 + QUIET_S)[1] is KeyEffect.APPROVED


def test_a_card_that_was_covered_arms_anew() -> None:
    card = read_card(Risk.LOW).with_covered()
    assert card.press("a", 50.0)[1] is KeyEffect.NOTHING
    card = card.with_painted(60.0)
    assert card.press("a", 60.0 + VISIBLE_S - 0.01)[1] is KeyEffect.NOTHING


@pytest.mark.parametrize(
    ("after", "did"),
    [
        (CONFIRM_FROM_S - 0.01, KeyEffect.CLOSED),
        (CONFIRM_FROM_S, KeyEffect.APPROVED),
        (CONFIRM_UNTIL_S, KeyEffect.APPROVED),
        (CONFIRM_UNTIL_S + 0.01, KeyEffect.NOTHING),
    ],
)
def test_the_letter_counts_inside_its_window_only(after: float, did: KeyEffect) -> None:
    card, opened = read_card(Risk.HIGH, "k").press("a", 10.0)
    assert opened is KeyEffect.OPENED
    assert card.press("k", 10.0 + after)[1] is did


@each_row("key", [key for key in KEYS if key != "k"])
def test_every_other_key_closes_the_window(key: str) -> None:
    card, _ = read_card(Risk.HIGH, "k").press("a", 10.0)
    card, did = card.press(key, 11.0)
    assert did is KeyEffect.CLOSED
    assert not card.confirm_open(11.0)
    assert card.press("k", 11.5)[1] is KeyEffect.NOTHING


def test_scrolling_restarts_quiet_and_not_visible() -> None:
    card = read_card(Risk.LOW).with_key(10.0)
    assert card.blocked_reason(10.0 + QUIET_S - 0.01) == "keys not ready"
    assert card.blocked_reason(10.0 + QUIET_S) == ""


@pytest.mark.parametrize("risk", [Risk.HIGH, Risk.CRITICAL])
def test_unread_or_masked_cards_of_high_risk_stay_off(risk: Risk) -> None:
    letter = "k" if risk is Risk.HIGH else "kxyz"
    read = read_card(risk, letter)
    for card in (read.with_read(end_seen=False), read.with_read(masked=True)):
        assert card.blocked_reason(50.0)
        assert card.press("a", 50.0)[1] is KeyEffect.NOTHING
    opened, _ = read.press("a", 50.0)
    assert opened.with_read(end_seen=False).press(letter[0], 51.0)[1] is KeyEffect.CLOSED


def test_a_request_without_its_letter_cannot_be_approved() -> None:
    for risk, letter in ((Risk.HIGH, ""), (Risk.HIGH, "ab"), (Risk.CRITICAL, "k")):
        assert read_card(risk, letter).press("a", 50.0)[1] is KeyEffect.NOTHING


def test_critical_wants_all_four_letters_in_time() -> None:
    card, did = read_card(Risk.CRITICAL, "kxyz").press("a", 10.0)
    for at, letter in enumerate("kxy"):
        card, did = card.press(letter, 11.0 + at * 0.2)
        assert did is KeyEffect.TYPED
    assert card.press("z", 12.0)[1] is KeyEffect.APPROVED
    assert card.press("z", 10.0 + CODE_UNTIL_S + 0.1)[1] is KeyEffect.NOTHING
    assert card.press("q", 12.0)[1] is KeyEffect.CLOSED


def test_hands_on_the_machine_kills_approve_and_arms_anew() -> None:
    opened, _ = read_card(Risk.HIGH, "k").press("a", 10.0)
    held = opened.with_desktop_control(True, 10.5)
    assert held.press("k", 11.0)[1] is KeyEffect.NOTHING
    assert held.press("a", 30.0)[1] is KeyEffect.NOTHING
    freed = held.with_desktop_control(False, 40.0)
    assert freed.press("a", 40.0 + VISIBLE_S - 0.01)[1] is KeyEffect.NOTHING
    assert freed.press("a", 40.01 + VISIBLE_S)[1] is KeyEffect.OPENED


@pytest.mark.parametrize("risk", [Risk.MEDIUM, Risk.HIGH])
def test_a_card_whose_window_lost_the_keyboard_arms_anew_when_it_has_it_again(risk: Risk) -> None:
    counts = {Risk.MEDIUM: KeyEffect.APPROVED, Risk.HIGH: KeyEffect.OPENED}[risk]
    read = read_card(risk, "k" if risk is Risk.HIGH else "")
    before = read.press("a", 10.0)[0] if risk is Risk.HIGH else read
    away = before.with_keyboard_elsewhere(True, 10.5)
    assert "keyboard" in away.blocked_reason(30.0)
    assert away.press("k", 11.0)[1] is KeyEffect.NOTHING
    assert away.press("a", 30.0)[1] is KeyEffect.NOTHING
    assert away.may_refuse(30.0)
    back = away.with_keyboard_elsewhere(False, 40.0)
    assert not back.confirm_open(40.0)
    assert back.press("a", 39.99)[1] is KeyEffect.NOTHING
    assert back.press("a", 40.0 + VISIBLE_S - 0.01)[1] is KeyEffect.NOTHING
    assert back.press("a", 40.01 + VISIBLE_S)[1] is counts
    assert read.with_keyboard_elsewhere(False, 40.0) == read


def test_a_card_painted_while_another_window_has_the_keyboard_arms_only_after_it() -> None:
    card = ArmingState(Risk.LOW, end_seen=True, keyboard_elsewhere=True).with_painted(0.0)
    assert card.blocked_reason(50.0)
    assert card.with_covered().with_painted(60.0).blocked_reason(90.0)
    back = card.with_keyboard_elsewhere(False, 100.0)
    assert back.press("a", 100.0 + VISIBLE_S - 0.01)[1] is KeyEffect.NOTHING
    assert back.press("a", 100.01 + VISIBLE_S)[1] is KeyEffect.APPROVED


def test_all_short_sequences_of_quick_keys_approve_nothing() -> None:
    for keys in itertools.product(["a", "k", "enter", "down"], repeat=5):
        card = read_card(Risk.HIGH, "k")
        for at, key in enumerate(keys):
            card, did = card.press(key, VISIBLE_S + at * 0.2 - 0.21)
            assert did is not KeyEffect.APPROVED


@pytest.mark.suite
@pytest.mark.parametrize("risk", list(Risk))
def test_a_typist_with_short_gaps_never_approves(risk: Risk) -> None:
    chance = random.Random(7)
    letter = {Risk.HIGH: "k", Risk.CRITICAL: "kxyz"}.get(risk, "")
    now = 0.0
    card = read_card(risk, letter).with_key(0.0)
    for _ in range(100_000 if FULL else 10_000):
        now += chance.uniform(0.001, 0.499)
        card, did = card.press(chance.choice(["a", *KEYS, *letter]), now)
        assert did in (KeyEffect.NOTHING,)


@pytest.mark.suite
def test_a_slow_typist_approves_high_risk_no_more_often_than_chance() -> None:
    chance = random.Random(11)
    opened = approved = 0
    for _ in range(20_000 if FULL else 3_000):
        now, card = 0.0, read_card(Risk.HIGH, chance.choice(LETTERS))
        for _ in range(12):
            now += chance.uniform(0.0, 3.0)
            card, did = card.press(chance.choice(KEYS), now)
            opened += did is KeyEffect.OPENED
            approved += did is KeyEffect.APPROVED
    assert opened > 500
    assert approved <= opened / len(LETTERS)
