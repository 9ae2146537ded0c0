"""Executables on the command line: listed with type, status and path, tested, and asked again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from flycore.catalog.document import catalog_schema
from flytui.cli.commands.schema import schema_of
from kits.command_line import Desk
from kits.executables import COUNT_BODY, COUNT_SCHEMA, ECHO_BODY, ECHO_SCHEMA, program, put, shell


def user_folder(desk: Desk) -> Path:
    folder = desk.home / "data" / "flytui" / "tools"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def listed(desk: Desk) -> dict[str, Any]:
    document = desk.document("tools", "list")
    jsonschema.validate(document, schema_of("tools"))
    return {tool["name"]: tool for tool in document["tools"]}


def test_they_are_listed_with_type_status_and_path(desk: Desk) -> None:
    count = put(user_folder(desk), "count", program(COUNT_SCHEMA, COUNT_BODY))
    put(user_folder(desk), "broken", shell("echo 'no such option' >&2; exit 42"))
    put(desk.root / "tools" / "bin", "echo", program(ECHO_SCHEMA, ECHO_BODY))
    tools = listed(desk)
    known, broken, waiting = tools["count"], tools["broken"], tools["echo"]
    assert (known["type"], known["status"], known["path"]) == ("executable", "ready", str(count))
    assert known["description"] == COUNT_SCHEMA["description"]
    assert (broken["status"], broken["effective"]) == ("schema-unknown", "degraded")
    assert "no such option" in broken["why"]
    assert (waiting["status"], waiting["effective"]) == ("error", "unavailable")
    assert "nobody has trusted it" in waiting["why"]
    plain = desk.run("tools", "list", "--plain").stdout
    assert all(word in plain for word in ("count", "executable", "schema-unknown", str(count)))
    jsonschema.validate(desk.document("catalog"), catalog_schema())


def test_trust_in_what_was_shown_makes_it_a_tool_and_a_change_takes_that_away(desk: Desk) -> None:
    folder = desk.root / "tools" / "bin"
    put(folder, "echo", program(ECHO_SCHEMA, ECHO_BODY))
    shown = desk.document("trust", "--print-digest")
    assert any("tools/bin/echo" in line for item in shown["waiting"] for line in item["lines"])
    assert desk.run("trust", "--digest", shown["digest"]).returncode == 0
    assert listed(desk)["echo"]["status"] == "ready"
    put(folder, "echo", program(ECHO_SCHEMA, ECHO_BODY + "\n"))
    assert listed(desk)["echo"]["status"] == "error"


def test_a_program_is_tested_without_a_root_knowing_it(desk: Desk, tmp_path: Path) -> None:
    file = put(tmp_path / "work", "say.py", program(ECHO_SCHEMA, ECHO_BODY))
    shown = desk.run("tools", "test", str(file))
    assert shown.returncode == 0
    assert "echo" in shown.stdout
    tested = desk.document("tools", "test", str(file), "--input", '{"text": "hi"}')
    jsonschema.validate(tested, schema_of("tools-test"))
    assert tested["trial"]["call"]["output"]["result"] == "hi hi"
    refused = desk.run("tools", "test", str(file), "--input", '{"times": 1}')
    assert refused.returncode == 1
    assert "text" in refused.stdout
    assert "echo" not in listed(desk)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("absent",), 2, "No such file"),
        (("notes.txt",), 2, "is not an executable file"),
        (("bad",), 1, "printed something that"),
        (("bad", "--input", "[1]"), 2, "must be a JSON object"),
        (("bad", "--input", "{"), 2, "is not JSON"),
        (("bad", "--tool", "other", "--input", "{}"), 1, "describes no tool other"),
    ],
)
def test_what_cannot_be_tested_is_said_so(
    desk: Desk, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    put(tmp_path / "work", "bad", shell("echo hello"))
    put(tmp_path / "work", "notes.txt", "text", 0o644)
    done = desk.run("tools", "test", str(tmp_path / "work" / words[0]), *words[1:])
    assert done.returncode == code
    assert said in done.stdout + done.stderr


def test_a_test_runs_without_permissions(desk: Desk, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    body = f"""
try:
    open({str(mark)!r}, "w").write("x")
except OSError as error:
    print(json.dumps({{"success": False, "error": type(error).__name__}}))
"""
    file = put(tmp_path / "work", "nosy", program({**ECHO_SCHEMA, "parameters": {}}, body))
    tested = desk.document("tools", "test", str(file), "--input", "{}")
    assert tested["trial"]["call"]["status"] == "failed"
    assert not mark.exists()


def test_refresh_asks_again(desk: Desk) -> None:
    nothing = desk.document("tools", "refresh")
    assert nothing["sidecars"] == []
    put(user_folder(desk), "count", program(COUNT_SCHEMA, COUNT_BODY))
    assert listed(desk)["count"]["status"] == "ready"
    cache = desk.home / "cache" / "flytui" / "schemas.json"
    before = json.loads(cache.read_text())
    asked = desk.document("tools", "refresh")
    jsonschema.validate(asked, schema_of("tools-refresh"))
    assert asked["sidecars"] == ["user.count"]
    after = json.loads(cache.read_text())
    (old,), (new,) = before["answers"].values(), after["answers"].values()
    assert new["evidence"]["at"] > old["evidence"]["at"]
    assert new["listing"] == old["listing"]
    assert "asked 1 executable" in desk.run("tools", "refresh").stdout


def test_switching_one_off_names_its_file(desk: Desk) -> None:
    put(user_folder(desk), "count", program(COUNT_SCHEMA, COUNT_BODY))
    done = desk.run("disable", "user.count", "--reason", "no")
    assert done.returncode != 0
    assert "tools/count is no registry" in done.stdout + done.stderr
