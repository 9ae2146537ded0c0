"""Every value of an enumeration has its label, whatever the enumeration is imported by."""

from __future__ import annotations

import time
from enum import StrEnum

import pytest

from flycore.model.enums import Effective, Phase, Risk, Status
from flytui.text.labels import PHASE_LABELS, RISK_LABELS, STATE_LABELS, STATUS_LABELS, day_words
from flytui.text.lines import Tone
from kits.tables import each_row


@pytest.mark.parametrize(
    ("labels", "kind"),
    [(STATE_LABELS, Effective), (RISK_LABELS, Risk), (STATUS_LABELS, Status), (PHASE_LABELS, Phase)],
)
def test_every_value_has_a_label_and_no_other(
    labels: dict[str, tuple[str, Tone]], kind: type[StrEnum]
) -> None:
    assert set(labels) == {str(member) for member in kind}
    assert all(labels[member] for member in kind)


@each_row(
    ("days", "words"),
    [
        (0, "today"),
        (1, "yesterday"),
        (2, "Sunday"),
        (6, "Wednesday"),
        (7, "27 May"),
        (160, "25 December 2024"),
        (-1, "4 June"),
    ],
)
def test_days_are_words(days: int, words: str) -> None:
    now = time.mktime((2025, 6, 3, 12, 0, 0, 0, 0, -1))
    assert day_words(now - days * 86_400, now) == words
