"""`flytui init`, `enable`, `disable`: the same edits as the console's, and no trust with them."""

from __future__ import annotations

import json
from pathlib import Path

from flycore.registry.edits import starter_text
from kits.command_line import Desk


def empty_desk(base: Path) -> Desk:
    made = Desk(base / "root", base / "home")
    made.root.mkdir()
    (made.home / "run").mkdir(parents=True, mode=0o700)
    return made


def test_a_first_registry_is_printed_written_once_and_waits_for_trust(tmp_path: Path) -> None:
    desk = empty_desk(tmp_path)
    printed = desk.run("init", "--print")
    assert (printed.returncode, printed.stdout) == (0, starter_text())
    assert list(desk.root.iterdir()) == []
    done = desk.document("init")
    assert done["outcome"] == "created"
    file = desk.root / done["file"]
    assert file.read_text() == starter_text()
    assert (desk.root / "tools" / "schemas" / "registry.schema.json").is_file()
    assert desk.run("lint").returncode == 0
    waiting = {item["sidecar"] for item in desk.document("trust", "--print-digest")["waiting"]}
    media = {"media.local", "media.speech", "media.provider"}
    own = {"utility.local", "utility.files", "utility.code", "utility.tasks", "browser.cdp", "mock.echo"}
    web = {"web.search", "web.pages", "web.files"}
    assert waiting == own | media | web
    file.write_text("{}")
    again = desk.run("init")
    assert again.returncode == 5
    assert file.read_text() == "{}"


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
