"""`flytui sandbox probe` as a person types it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

from flycore.model.enums import Level
from flycore.sandbox.escape_trial import GAPS, NEEDED, REPORTED, WITH_NETWORK, gaps_of
from flycore.sandbox.observation import why_not_observed
from flytui.cli.commands.schema import schema_of
from kits.command_line import Desk
from kits.programs import needs_bubblewrap
from kits.sandbox_levels import LevelDesk

PAGE = Path(__file__).parents[3] / "docs" / "sandbox.md"


def test_the_matrix_names_each_level_and_finds_no_hole(desk: Desk) -> None:
    needs_bubblewrap()
    done = desk.run("sandbox", "probe")
    assert (done.returncode, done.stderr) == (0, "")
    heading, *rows = done.stdout.splitlines()
    assert heading.split()[:2] == ["PROBE", "none"]
    assert "enforced" in heading
    assert any(re.match(r"read-outside +open .* shut$", row) for row in rows)


def test_the_document_keeps_its_schema(desk: Desk) -> None:
    done = desk.run("sandbox", "probe", "--json")
    document = json.loads(done.stdout)
    jsonschema.validate(document, schema_of("sandbox-probe"))
    assert done.returncode == int(any(level["newlyOpen"] for level in document["levels"]))
    none = document["levels"][0]
    assert (none["level"], none["results"]["read-outside"]) == ("none", "open")


def test_the_page_tells_each_gap() -> None:
    text = PAGE.read_text().partition("What may be `open`:")[2]
    told = set(re.findall(r"`([a-z0-9-]+)`", text)) - {level.value for level in GAPS} - {"open"}
    gaps = {name for level in GAPS for name in gaps_of(level, 1)}
    assert told == {*gaps, *NEEDED, *REPORTED, *WITH_NETWORK}


def test_explain_says_what_a_tool_reaches(settled: Desk) -> None:
    done = settled.run("sandbox", "explain", "file.hash")
    assert (done.returncode, done.stderr) == (0, "")
    heading, *lines = done.stdout.splitlines()
    document = json.loads(settled.run("sandbox", "explain", "file.hash", "--json").stdout)
    jsonschema.validate(document, schema_of("sandbox-explain"))
    report = document["explanation"]["report"]
    assert heading == f"file.hash of utility.local runs at level {report['level']} here"
    assert any(line.split()[:2] == ["network", "none"] for line in lines)
    for granted in document["explanation"]["paths"]:
        assert any(line.endswith(granted["path"]) for line in lines)


def test_explain_of_a_tool_that_nobody_offers_fails(settled: Desk) -> None:
    done = settled.run("sandbox", "explain", "nobody.does")
    assert (done.returncode, done.stdout) == (3, "")
    assert "flytui why nobody.does" in done.stderr


READS = """#!/usr/bin/env python3
import json, sys
asked = json.loads(sys.stdin.readline())
try:
    print(json.dumps({"ok": True, "text": open(asked["projectDir"] + "/data.json").read()}))
except OSError as error:
    print(json.dumps({"ok": False, "error": f"no data: {error.strerror}"}))
"""


@pytest.fixture
def lacking(desk: Desk) -> Desk:
    """A trusted root with a tool that reads a file which its entry does not grant."""
    needs_bubblewrap()
    if why := why_not_observed():
        pytest.skip(f"NOT TESTED: {why}")
    program = desk.root / "tools" / "bin" / "reads"
    program.parent.mkdir(parents=True)
    program.write_text(READS)
    program.chmod(0o755)
    (desk.root / "data.json").write_text("the data")
    tool = {"name": "it.read", "description": "Reads.", "inputSchema": {"type": "object"}, "risk": "low"}
    entry = {"command": "./tools/bin/reads", "cwd": "empty", "permissions": {}, "tools": [tool]}
    desk.write({"schemaVersion": 2, "sidecars": {"it": entry}})
    desk.allow({"schemaVersion": 1, "rules": [{"tool": "it.read", "decision": "allow", "because": "test"}]})
    desk.trust()
    return desk


def test_learn_proposes_the_smallest_permissions(lacking: Desk) -> None:
    done = lacking.run("sandbox", "learn", "it.read")
    assert done.returncode == 0, done.stderr
    assert "it.read was refused this:\n  reads   data.json\n" in done.stdout
    assert '"permissions": {"fs": {"read": ["data.json"]}}' in done.stdout
    assert "permission-missing" in done.stderr
    document = lacking.document("sandbox", "learn", "it.read")
    jsonschema.validate(document, schema_of("sandbox-learn"))
    assert document["permissions"] == {"fs": {"read": ["data.json"]}}
    assert document["difference"] == ['+ /permissions/fs/read/0: "data.json"']
    assert document["applied"] is False


def test_learn_applies_only_what_a_person_at_a_terminal_accepts(lacking: Desk) -> None:
    registry = lacking.root / "tools" / "external.tools.jsonc"
    before = registry.read_text()
    assert lacking.run("sandbox", "learn", "it.read", "--apply", given=b"y\n").returncode == 5
    with lacking.terminal("sandbox", "learn", "it.read", "--apply") as terminal:
        terminal.until("y/N")
        terminal.press("n\r")
        assert terminal.end() == 5
    assert registry.read_text() == before
    with lacking.terminal("sandbox", "learn", "it.read", "--apply") as terminal:
        terminal.until("y/N")
        terminal.press("y\r")
        assert terminal.end() == 0
    assert json.loads(registry.read_text())["sidecars"]["it"]["permissions"] == {
        "fs": {"read": ["data.json"]}
    }
    # What was trusted before still runs, until the change is trusted. This kernel has refused it to nobody.
    lacking.end_kernel()
    assert lacking.run("call", "it.read").returncode == 1
    lacking.trust()
    explained = lacking.run("sandbox", "explain", "it.read").stdout
    assert any(line.endswith(str(lacking.root / "data.json")) for line in explained.splitlines())
    # What a script may read it may also load, so that its rule asks, and no console is open.
    assert lacking.run("call", "it.read").returncode == 4


def test_learn_says_where_nothing_was_confined(trusted: Desk) -> None:
    trusted.end_kernel()
    bare = LevelDesk(trusted.root, trusted.home, forked=False, level=Level.NONE)
    done = bare.run("sandbox", "learn", "try.echo", "message=x")
    assert done.returncode == 0
    assert "was not confined" in done.stderr
