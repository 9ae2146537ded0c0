"""Writes the tables of keys of docs/console.md from the console's own table: python docs/make_keys.py"""

from __future__ import annotations

from pathlib import Path

from flytui.console.key_table import SECTIONS, KeyAction

PAGE = Path(__file__).with_name("console.md")
HEADING = "## Every key\n"


def keys_part() -> str:
    """Returns the last part of the page, which has one table for each screen."""
    parts = [HEADING]
    for section in SECTIONS:
        rows = [_row(entry) for entry in section.entries]
        parts += [f"\n### Keys: {section.title}\n\n| key | id | what it does |\n|---|---|---|\n", *rows]
    return "".join(parts)


def _row(entry: KeyAction) -> str:
    pressed = " ".join(f"`{key}`" for key in entry.default_keys)
    return f"| {pressed} | {f'`{entry.id}`' if entry.id else 'fixed'} | {entry.words} |\n"


def page(text: str) -> str:
    """Returns the page with its last part made anew."""
    return text.partition(HEADING)[0] + keys_part()


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
