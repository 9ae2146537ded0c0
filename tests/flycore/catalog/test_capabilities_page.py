"""The page of capabilities says what the table says."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_page_is_current() -> None:
    made = runpy.run_path(str(DOCS / "make_capabilities.py"))
    assert made["page"]() == (DOCS / "capabilities.md").read_text(encoding="utf-8")
