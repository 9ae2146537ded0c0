"""Programs that tests drive: those of the end-to-end tests only with their marker."""

from __future__ import annotations

import pytest

from kits.programs import END_TO_END, needs


def test_a_case_without_the_marker_drives_no_terminal_display_or_browser() -> None:
    for program in sorted(END_TO_END):
        with pytest.raises(pytest.fail.Exception, match=f"drives {program}, so it needs the marker e2e"):
            needs("sh", program)
    needs("sh")


@pytest.mark.e2e
def test_a_case_with_the_marker_skips_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("FLYTUI_E2E", raising=False)
    with pytest.raises(pytest.skip.Exception, match="NOT TESTED, not installed: tmux"):
        needs("tmux")
    monkeypatch.setenv("FLYTUI_E2E", "require")
    with pytest.raises(pytest.fail.Exception, match="required here but not installed: tmux"):
        needs("tmux")
