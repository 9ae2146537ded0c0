"""Programs that tests drive: absent, a test skips loudly, or fails where everything is required."""

from __future__ import annotations

import os
import shutil

import pytest


def needs(*programs: str) -> None:
    """Skip where a program is not on PATH; fail instead where FLYTUI_E2E is `require`, as CI sets it."""
    missing = ", ".join(program for program in programs if shutil.which(program) is None)
    if missing and os.environ.get("FLYTUI_E2E") == "require":
        pytest.fail(f"required here but not installed: {missing}")
    if missing:
        pytest.skip(f"NOT TESTED, not installed: {missing}")
