"""`flytui token` as a process: with a kernel and without one."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

from kits.command_line import Desk
from kits.tables import each_row


def lines(desk: Desk) -> list[tuple[str, str]]:
    kept = desk.document("audit", "tail", "-n", "50")["lines"]
    return [(line["token"], line["decision"]) for line in kept if line["event"] == "TOKEN_CHANGED"]


def files(desk: Desk) -> list[Path]:
    return [path for path in (desk.home / "state").rglob("*") if path.is_file()]


def test_a_token_is_printed_once_and_kept_nowhere(desk: Desk) -> None:
    done = desk.run("token", "new", "claude")
    token = done.stdout.strip()
    assert (done.returncode, token.startswith("flytui_"), len(token) > 40) == (0, True, True)
    assert "this once" in done.stderr
    assert token not in done.stderr
    (kept,) = [path for path in files(desk) if path.name == "tokens.json"]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert not [path for path in files(desk) if token.encode() in path.read_bytes()]
    listed = desk.run("token", "list")
    assert "claude" in listed.stdout
    assert token not in listed.stdout
    assert lines(desk) == [("claude", "made")]


def test_what_it_says_as_a_document(desk: Desk) -> None:
    assert desk.document("token")["tokens"] == []
    made = desk.document("token", "new", "ci")
    assert (made["schema"], made["outcome"], [one["name"] for one in made["tokens"]]) == (
        "flytui.token/1",
        "made",
        ["ci"],
    )
    assert made["token"].startswith("flytui_")
    again = desk.document("token", "new", "ci")
    assert (again["outcome"], again["token"]) == ("refused", "")
    assert desk.run("token", "new", "ci", "--json").returncode == 4
    assert desk.document("token", "list")["token"] == ""
    assert desk.document("token", "revoke", "ci")["outcome"] == "revoked"
    assert desk.document("token", "list")["tokens"] == []
    assert desk.run("token", "revoke", "ci").returncode == 3
    assert lines(desk) == [("ci", "made"), ("ci", "revoked")]


@each_row("name", ["", "A b", "-", "x" * 33, "../x", "\x1b[2J"])
def test_an_odd_name_makes_no_token(desk: Desk, name: str) -> None:
    done = desk.run("token", "new", "--", name)
    assert (done.returncode, done.stdout) == (4, "")
    assert "\x1b" not in done.stderr
    assert desk.document("token")["tokens"] == []


def test_a_kernel_that_runs_writes_and_the_log_names_who_asked(trusted: Desk) -> None:
    trusted = replace(trusted, forked=False)  # the log names who asked by the command line in /proc
    with trusted.terminal() as console:
        console.until("policy ok")
        made = trusted.document("token", "new", "agent")
        assert (made["outcome"], made["token"].startswith("flytui_")) == ("made", True)
        assert trusted.run("token", "new", "agent").returncode == 4
        assert trusted.document("token", "revoke", "agent")["outcome"] == "revoked"
    kept = trusted.document("audit", "tail", "-n", "50")["lines"]
    by = {line["decidedBy"] for line in kept if line["event"] == "TOKEN_CHANGED"}
    assert len(by) == 1
    assert "via socket" in by.pop()


def test_a_list_that_is_broken_is_said_and_admits_nobody(desk: Desk) -> None:
    desk.run("token", "new", "claude")
    (kept,) = [path for path in files(desk) if path.name == "tokens.json"]
    kept.write_text("nonsense")
    listed = desk.run("token")
    assert "cannot be used" in listed.stderr
    assert "no client" in listed.stdout
    assert desk.run("token", "new", "other").returncode == 4
    assert kept.read_text() == "nonsense"


def test_a_url_is_printed_once_with_a_token_for_nothing_else(desk: Desk) -> None:
    done = desk.run("token", "url", "tui")
    address, _, token = done.stdout.strip().partition("?token=")
    assert (done.returncode, address, token.startswith("flytui_")) == (0, "ws://127.0.0.1:8787/ws", True)
    assert "flytui serve --tcp does not run" in done.stderr
    assert token not in done.stderr
    assert not [path for path in files(desk) if token.encode() in path.read_bytes()]
    (listed,) = desk.document("token", "list")["tokens"]
    assert (listed["name"], listed["inUrl"]) == ("tui", True)
    assert "URL over TCP" in desk.run("token", "list").stdout
    assert desk.run("token", "url", "tui").returncode == 4
    assert lines(desk) == [("tui", "made for a URL")]
