"""Every code that a tool or a call may have is explained in the page on troubleshooting, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from flycore.model.enums import Code, ReasonCode

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
TOOL, _, CALL = PAGE.partition("\n## Codes of a call\n")


def test_every_code_of_a_tool_has_a_section_with_a_text() -> None:
    sections = dict(re.findall(r"^### (\S+)\n\n(.+?)(?=\n\n### |\Z)", TOOL, re.MULTILINE | re.DOTALL))
    assert set(sections) == set(ReasonCode)
    assert [code for code, text in sections.items() if len(text) < 40] == []


def test_every_code_of_a_call_has_a_row_with_what_to_do() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \| ([^|]+) \|$", CALL, re.MULTILINE)
    assert {code for code, _, _ in rows} == set(Code)
    assert len(rows) == len(Code)
