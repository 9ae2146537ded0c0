"""Exact replacements, and the difference that a person sees."""

from __future__ import annotations

import pytest

from flycore.runners.workspace.text_changes import ChangeDoesNotFit, apply_change, diff_lines


def test_edits_are_made_one_after_the_other() -> None:
    edits = [{"old": "a", "new": "b"}, {"old": "b", "new": "c"}]
    assert apply_change("a\n", {"edits": edits}) == "c\n"


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ("a\n", {"old": "x", "new": "y"}),
        ("a a\n", {"old": "a", "new": "b"}),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(text: str, edit: dict[str, str]) -> None:
    with pytest.raises(ChangeDoesNotFit):
        apply_change(text, {"edits": [edit]})


def test_an_edit_that_would_fill_the_memory_is_refused_before_it_is_made() -> None:
    edit = {"old": "a", "new": "b" * 1_000_000, "all": True}
    with pytest.raises(ChangeDoesNotFit, match="longer"):
        apply_change("a" * 1_000_000, {"edits": [edit]})


def test_a_line_end_that_goes_is_seen() -> None:
    assert diff_lines("a\n", "a") == ("@@ line 1", "-a", "+a (no newline at the end)")
