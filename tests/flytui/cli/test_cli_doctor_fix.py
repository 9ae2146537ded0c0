"""`flytui doctor --fix` on a real terminal: shown, asked, and nothing done without a yes."""

from __future__ import annotations

import pytest

from kits.command_line import REGISTRY, Desk

FILE = "tools/external.tools.jsonc"


def test_without_a_terminal_it_fixes_nothing(desk: Desk) -> None:
    for words in (("doctor", "--fix"), ("doctor", "--fix", "--json")):
        assert desk.run(*words).returncode == 2


@pytest.mark.parametrize(("answer", "written"), [("y", True), ("n", False), ("", False)])
def test_a_fix_is_shown_and_run_only_after_yes(desk: Desk, answer: str, written: bool) -> None:
    (desk.root / FILE).unlink()
    with desk.terminal("doctor", "--fix") as shown:
        shown.until("init")
        shown.until("run it?")
        assert not (desk.root / FILE).exists()
        shown.press(f"{answer}\r")
        shown.until("exit status 0" if written else "checks again")
        shown.end()
    assert (desk.root / FILE).exists() is written


def test_an_entry_that_waits_is_offered_the_trust_question(desk: Desk) -> None:
    desk.write(REGISTRY)
    with desk.terminal("doctor", "--fix") as shown:
        shown.until("trust")
        shown.until("run it?")
        for _ in range(20):
            shown.press("\r")
        shown.until("checks again")
        shown.end()
    assert len(desk.document("trust")["waiting"]) > 0
