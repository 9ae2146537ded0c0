"""Every value of an enumeration has its label, whatever the enumeration is imported by."""

from __future__ import annotations

from enum import StrEnum

import pytest

from flycore.model.enums import Effective, Phase, Risk, Status
from flytui.text.labels import PHASE_LABELS, RISK_LABELS, STATE_LABELS, STATUS_LABELS
from flytui.text.lines import Tone


@pytest.mark.parametrize(
    ("labels", "kind"),
    [(STATE_LABELS, Effective), (RISK_LABELS, Risk), (STATUS_LABELS, Status), (PHASE_LABELS, Phase)],
)
def test_every_value_has_a_label_and_no_other(
    labels: dict[str, tuple[str, Tone]], kind: type[StrEnum]
) -> None:
    assert set(labels) == {str(member) for member in kind}
    assert all(labels[member] for member in kind)
