"""The size at which tests run: quick in `make test` and `make test-all`, full in `make suites`.

A quick test shows each kind of case. What repeats one kind with many values belongs to the full size.
"""

from __future__ import annotations

import os

FULL = os.environ.get("FLYTUI_SUITES") == "full"
USUAL_EXAMPLES = 100
"""How many examples Hypothesis makes where a test names no number."""
QUICK_SHARE = 8


def examples(full: int) -> int:
    """How many of that many examples a test of Hypothesis makes at the present size."""
    return full if FULL else full // QUICK_SHARE
