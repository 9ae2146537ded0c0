"""`flytui enable` and `disable`: the same edits as the console's, and no trust with them."""

from __future__ import annotations

import json

from kits.command_line import Desk


def test_off_and_on_by_an_edit_that_keeps_comments(desk: Desk) -> None:
    file = desk.root / "tools" / "external.tools.jsonc"
    entry = '{"command": "flytui-sidecar", /* x */ "tools": ["file.hash"]}'
    text = f'{{"schemaVersion": 2, // mine\n"sidecars": {{"own": {entry}}}}}'
    file.write_text(text)
    desk.trust()
    off = desk.document("disable", "own", "--reason", "too   loud")
    assert (off["outcome"], off["enabled"], off["waits"]) == ("switched", False, False)
    assert file.read_text() == text.replace(
        '"command"', '"enabled": false, "disabledReason": "too loud", "command"'
    )
    assert desk.document("disable", "own", "--reason", "too loud")["outcome"] == "unchanged"
    on = desk.document("enable", "own")
    assert (on["outcome"], on["waits"]) == ("switched", True)


def test_what_cannot_be_switched_says_why(desk: Desk) -> None:
    assert desk.run("enable", "nobody").returncode == 3
    assert desk.run("disable", "utility.local").returncode == 2
    file = desk.root / "tools" / "external.tools.jsonc"
    before = file.read_text()
    assert json.loads(before)
    file.write_text(before[:-1])
    broken = desk.run("disable", "utility.local", "--reason", "x")
    assert broken.returncode == 5
    assert "tools/external.tools.jsonc:" in broken.stderr
    assert file.read_text() == before[:-1]
