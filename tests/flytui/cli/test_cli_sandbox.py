"""`flytui sandbox probe` as a person types it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema

from flycore.sandbox.escape_trial import GAPS, NEEDED, REPORTED, WITH_NETWORK, gaps_of
from flytui.cli.commands.schema import schema_of
from kits.command_line import Desk
from kits.programs import needs_bubblewrap

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
