"""The console's page names every key as the key table has it."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_has_the_keys_of_the_table() -> None:
    made = runpy.run_path(str(DOCS / "make_keys.py"))
    text = (DOCS / "console.md").read_text(encoding="utf-8")
    assert made["page"](text) == text
