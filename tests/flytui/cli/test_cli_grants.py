"""`flytui grants`: what stands is listed; what lets more through is not taken away by a script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flycore.approval.tool_blocks import ToolBlockStore
from kits.command_line import Desk, until
from kits.tables import each_row

RULES: dict[str, Any] = {
    "schemaVersion": 1,
    "rules": [
        {"tool": "try.echo", "decision": "allow", "because": "it only echoes"},
        {"tool": "web.*", "decision": "deny", "because": "‮not now"},
    ],
}


@pytest.fixture
def standing(desk: Desk) -> Desk:
    """Two rules and a block, and no kernel."""
    desk.allow(RULES)
    desk.trust()
    desk.end_kernel()
    assert ToolBlockStore(state(desk) / "blocks.json").block("file.hash", 1.0, "too slow") == ""
    return desk


def state(desk: Desk) -> Path:
    (found,) = (desk.home / "state" / "flytui" / "roots").iterdir()
    return found


def decisions(desk: Desk) -> list[str]:
    return [rule["decision"] for rule in desk.document("grants")["rules"]]


def ids(desk: Desk) -> list[str]:
    return [rule["digest"] for rule in desk.document("grants", "list")["rules"]]


def test_everything_that_stands_is_listed(standing: Desk) -> None:
    document = standing.document("grants")
    assert document["schema"] == "flytui.grants/1"
    assert document["leases"] == []
    assert [block["tool"] for block in document["blocks"]] == ["file.hash"]
    listed = standing.run("grants").stdout
    for words in (
        "allow try.echo",
        "deny web.*",
        "file.hash",
        "too slow",
        document["rules"][0]["digest"][:12],
    ):
        assert words in listed
    assert "‮" not in listed


def test_nothing_standing_says_so(desk: Desk) -> None:
    done = desk.run("grants")
    assert done.returncode == 0
    assert "no leases, rules or blocks" in done.stdout


def test_an_allow_goes_at_once_and_is_written_down(standing: Desk) -> None:
    allow, _ = ids(standing)
    assert standing.run("grants", "revoke", allow[:12]).returncode == 0
    assert decisions(standing) == ["deny"]
    exported = standing.run("audit", "export").stdout.splitlines()
    lines = [json.loads(line) for line in exported]
    (line,) = [line for line in lines if line["event"] == "RULE_CHANGED"]
    assert (line["decision"], line["decidedBy"].startswith("a terminal, flytui (pid ")) == ("removed", True)
    assert standing.run("audit", "verify").returncode == 0


def test_a_script_takes_away_nothing_that_forbids(standing: Desk) -> None:
    _, deny = ids(standing)
    for name in (deny, "file.hash"):
        done = standing.run("grants", "revoke", name, given=b"y\n")
        assert done.returncode == 4
        assert "terminal" in done.stderr
    assert decisions(standing) == ["allow", "deny"]
    assert standing.document("grants")["blocks"]


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 4), ("", 4)])
def test_a_person_at_a_terminal_is_asked(standing: Desk, answer: str, code: int) -> None:
    _, deny = ids(standing)
    for name in (deny[:12], "file.hash"):
        with standing.terminal("grants", "revoke", name) as shown:
            shown.until("y/N")
            shown.press(f"{answer}\n")
            assert shown.end() == code
        assert "‮" not in shown.raw
    left = standing.document("grants")
    assert len(left["rules"]) == (1 if code == 0 else 2)
    assert len(left["blocks"]) == (0 if code == 0 else 1)
    assert standing.run("audit", "verify").returncode == 0


@each_row("name", ["nope", "ab", "0" * 64, "*"])
def test_an_unknown_id_is_not_found(standing: Desk, name: str) -> None:
    assert standing.run("grants", "revoke", name).returncode == 3


def test_while_a_console_is_open_it_is_the_place(standing: Desk) -> None:
    allow, deny = ids(standing)
    with standing.terminal() as console:
        console.until("try.echo")
        until("it answers", lambda: standing.owner() == "console")
        for name in (deny, "file.hash"):
            done = standing.run("grants", "revoke", name)
            assert done.returncode == 4
            assert "console" in done.stderr
        assert standing.run("grants", "revoke", allow).returncode == 0
        until("it is noticed", lambda: decisions(standing) == ["deny"])
        blocked = standing.document("call", "file.hash", "path=x")
        assert (blocked["status"], blocked["error"]["code"]) == ("denied", "blocked")
