"""The sentence with which `flytui` ends is safe text, whatever a path or a kernel's report holds."""

from __future__ import annotations

from pathlib import Path

from kits.command_line import Desk

PAYLOAD = "\x1b]0;owned\x07"


def test_a_path_with_a_payload_reaches_the_terminal_as_tokens(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "root", tmp_path / f"home{PAYLOAD}")
    desk.root.mkdir()
    desk.home.mkdir()
    (desk.home / "state").write_text("in the way of the state folder")
    with desk.terminal() as shown:
        assert shown.end() != 0
        assert PAYLOAD not in shown.raw
        assert "⟦U+001B⟧]0;owned" in shown.raw.replace("\r\n", "")
