"""`flytui connect`: the difference, one yes, exactly what was shown, and exactly that taken back."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

from flycore.offline.connect import BY_ID, CLIENT_NAMES
from flycore.registry.paths import find_paths
from flytui.cli.commands.schema import schema_of
from kits.command_line import Desk

MINE = '{\n  // mine\n  "mcpServers": {"other": {"command": "x"}}\n}\n'


def test_it_shows_the_difference_and_writes_nothing_without_a_person(desk: Desk) -> None:
    (desk.root / ".mcp.json").write_text(MINE)
    done = desk.run("connect", "claude-code")
    assert done.returncode == 4
    assert '"flytui": {' in done.stdout
    assert '"alwaysLoad": true' in done.stdout
    assert "With --permission: " in done.stdout
    assert "nothing was written" in done.stderr
    assert (desk.root / ".mcp.json").read_text() == MINE
    document = desk.document("connect", "claude-code")
    jsonschema.validate(document, schema_of("connect"), jsonschema.Draft202012Validator)
    assert [file["file"] for file in document["files"]] == [".mcp.json"]


def test_what_it_wrote_is_taken_back_exactly(desk: Desk) -> None:
    (desk.root / ".mcp.json").write_text(MINE)
    done = desk.run("connect", "claude-code", "--hook", "--permission", "--apply")
    assert done.returncode == 0, done.stderr
    settings = json.loads((desk.root / ".claude" / "settings.json").read_text())
    assert settings["permissions"] == {"allow": ["mcp__flytui"]}
    assert "hook claude-code" in settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    assert str(desk.root) not in (desk.root / ".mcp.json").read_text()
    assert "connected already" in desk.run("connect", "claude-code", "--apply").stdout
    assert "hook claude-code" in (desk.root / ".claude" / "settings.json").read_text()
    assert desk.run("connect", "claude-code", "--remove", "--apply").returncode == 0
    assert (desk.root / ".mcp.json").read_text() == MINE
    assert not (desk.root / ".claude" / "settings.json").exists()
    assert "has nothing of flytui's" in desk.run("connect", "claude-code", "--remove").stdout


def test_the_first_server_after_it_knows_the_tools(desk: Desk) -> None:
    file = find_paths(str(desk.root), None, desk.environ, desk.root).mcp_tools_file
    assert desk.run("connect", "claude-code").returncode == 4
    assert not file.exists()
    assert desk.run("connect", "claude-code", "--apply").returncode == 0
    first = json.loads(file.read_text())
    assert "git_status" in {tool["name"] for tool in first["tools/list"]["tools"]}
    assert desk.run("mcp", given=b"").returncode == 0
    assert json.loads(file.read_text()) == first


def test_codex_gets_the_line_that_spares_its_own_prompt(desk: Desk) -> None:
    file = desk.root / ".codex" / "config.toml"
    plain = desk.run("connect", "codex", "--apply")
    assert "With --permission: default_tools_approval_mode" in plain.stdout
    assert "default_tools_approval_mode" not in tomllib.loads(file.read_text())["mcp_servers"]["flytui"]
    assert desk.run("connect", "codex", "--permission", "--apply").returncode == 0
    server = tomllib.loads(file.read_text())["mcp_servers"]["flytui"]
    assert server["default_tools_approval_mode"] == "approve"
    assert desk.run("connect", "codex", "--remove", "--apply").returncode == 0
    assert not file.exists()


def test_qwen_code_keeps_the_tools_in_sight_of_the_model(desk: Desk) -> None:
    done = desk.run("connect", "qwen", "--apply")
    assert "qwen mcp approve flytui" in done.stdout
    settings = json.loads((desk.root / ".qwen" / "settings.json").read_text())
    assert settings["mcpServers"]["flytui"]["alwaysLoadTools"] is True


def test_a_file_that_was_changed_since_keeps_the_change(desk: Desk) -> None:
    assert desk.run("connect", "cursor", "--apply").returncode == 0
    file = desk.root / ".cursor" / "mcp.json"
    file.write_text(file.read_text().replace("{\n", '{\n  "later": 1,\n', 1))
    assert desk.run("connect", "cursor", "--remove", "--apply").returncode == 0
    assert json.loads(file.read_text()) == {"later": 1, "mcpServers": {}}


def test_an_entry_that_somebody_changed_by_hand_stays(desk: Desk) -> None:
    assert desk.run("connect", "gemini", "--apply").returncode == 0
    file = desk.root / ".gemini" / "settings.json"
    removed = desk.run("connect", "gemini", "--remove", "--apply")
    assert (removed.returncode, file.parent.exists()) == (0, False)  # the folder was made for it, too
    assert desk.run("connect", "gemini", "--apply").returncode == 0
    file.write_text(file.read_text().replace('"mcp"\n', '"mcp", "--wait", "5"\n'))
    before = file.read_text()
    for words in (("--remove", "--apply"), ("--apply",)):
        done = desk.run("connect", "gemini", *words)
        assert done.returncode == 5
        assert "by hand" in done.stderr
    assert file.read_text() == before


def test_the_address_is_written_and_the_token_is_named(desk: Desk) -> None:
    done = desk.run("connect", "codex", "--http", "http://127.0.0.1:8788/mcp", "--apply")
    assert done.returncode == 0, done.stderr
    text = (desk.root / ".codex" / "config.toml").read_text()
    assert 'url = "http://127.0.0.1:8788/mcp"' in text
    assert 'bearer_token_env_var = "FLYTUI_TOKEN"' in text
    token = done.stdout.strip().splitlines()[-1]
    assert token.startswith("flytui_")
    assert token not in text + done.stderr
    assert "http://127.0.0.1:8788/mcp" in done.stderr
    assert desk.document("token")["tokens"][0]["name"] == "codex"
    assert desk.run("connect", "codex", "--http").returncode == 2  # nothing is served here
    removed = desk.run("connect", "codex", "--remove", "--apply")
    assert "flytui token revoke codex" in removed.stdout
    assert not (desk.root / ".codex" / "config.toml").exists()
    assert desk.run("connect", "codex", "--apply").returncode == 0
    assert "env_vars" in (desk.root / ".codex" / "config.toml").read_text()
    assert "url" not in (desk.root / ".codex" / "config.toml").read_text()
    assert desk.run("connect", "codex", "--http", "nonsense").returncode == 2
    assert desk.run("connect", "codex", "--remove", "--hook").returncode == 2


def test_a_file_of_the_person_gets_the_whole_path_of_the_root(desk: Desk) -> None:
    config = Path(desk.environ["HOME"]) / ".config" / "goose" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("GOOSE_MODE: auto # mine\n")
    done = desk.run("connect", "goose", "--apply")
    assert done.returncode == 0, done.stderr
    assert "was not tried with goose itself" in done.stdout
    text = config.read_text()
    assert text.startswith("GOOSE_MODE: auto # mine\nextensions:\n  flytui:\n")
    assert f'args: ["--root", "{desk.root}", "mcp"]' in text
    assert desk.run("connect", "goose", "--remove", "--apply").returncode == 0
    assert config.read_text() == "GOOSE_MODE: auto # mine\n"


@pytest.mark.parametrize("text", ["[]", "{", '{"mcpServers": {"flytui": {"command": "x"}}}'])
def test_a_file_that_it_does_not_understand_is_left_alone(desk: Desk, text: str) -> None:
    (desk.root / ".mcp.json").write_text(text)
    done = desk.run("connect", "claude-code", "--apply")
    assert done.returncode == 5
    assert done.stderr.startswith(".mcp.json: ")
    assert (desk.root / ".mcp.json").read_text() == text


def test_a_link_out_of_the_project_is_not_followed(desk: Desk, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (desk.root / ".cursor").symlink_to(outside)
    done = desk.run("connect", "cursor", "--apply")
    assert done.returncode == 5
    assert list(outside.iterdir()) == []


def test_doctor_says_which_entry_is_out_of_date_and_that_a_hook_is_gone(desk: Desk) -> None:
    assert desk.run("connect", "claude-code", "--hook", "--permission", "--apply").returncode == 0
    connected = ("ok", "Claude Code is connected by .mcp.json")
    (Path(desk.environ["HOME"]) / ".claude.json").write_text("{}")
    assert connected in clients_in_doctor(desk)
    hooks = desk.root / ".claude" / "settings.json"
    text = hooks.read_text()
    hooks.write_text('{"permissions": {"allow": ["mcp__flytui"]}}')
    gone = "Claude Code: the hook that was written to .claude/settings.json is no longer there"
    assert ("warn", gone) in clients_in_doctor(desk)
    hooks.write_text(text)
    assert connected in clients_in_doctor(desk)
    # As an earlier flytui would have written it, and recorded it.
    for file in (desk.root / ".mcp.json", clients_file(desk)):
        file.write_text(file.read_text().replace('"alwaysLoad": true', '"alwaysLoad": false'))
        file.write_text(file.read_text().replace('"alwaysLoad":true', '"alwaysLoad":false'))
    old = "Claude Code: the entry in .mcp.json is that of an earlier flytui"
    assert ("warn", old) in clients_in_doctor(desk)
    assert desk.run("connect", "claude-code", "--apply").returncode == 0
    assert connected in clients_in_doctor(desk)


@pytest.mark.parametrize("client", CLIENT_NAMES)
def test_what_was_just_written_is_up_to_date_in_doctor(desk: Desk, client: str) -> None:
    row = BY_ID[client]
    (Path(desk.environ["HOME"]) / row.traces[0]).mkdir(parents=True)
    options = ["--hook"] if row.hook else []
    assert desk.run("connect", client, *options, "--permission", "--apply").returncode == 0
    found = clients_in_doctor(desk)
    assert [state for state, message in found if message.startswith(f"{row.title} is connected")] == ["ok"]


def test_doctor_says_that_codex_does_not_run_the_hook_yet(desk: Desk) -> None:
    (Path(desk.environ["HOME"]) / ".codex").mkdir()
    not_yet = ("warn", "Codex does not run flytui's hook yet: you have not trusted it there")
    assert desk.run("connect", "codex", "--apply").returncode == 0
    assert not_yet not in clients_in_doctor(desk)
    assert desk.run("connect", "codex", "--hook", "--apply").returncode == 0
    assert not_yet in clients_in_doctor(desk)


def clients_file(desk: Desk) -> Path:
    return find_paths(str(desk.root), None, desk.environ, desk.root).clients_file


def clients_in_doctor(desk: Desk) -> list[tuple[str, str]]:
    checks = desk.document("doctor")["checks"]
    return [(check["state"], check["message"]) for check in checks if check["name"] == "client"]


def test_doctor_looks_at_the_clients_that_are_here(desk: Desk) -> None:
    (Path(desk.environ["HOME"]) / ".cursor").mkdir()
    assert ("ok", "Cursor is here, and not connected by .cursor/mcp.json") in clients_in_doctor(desk)
    assert desk.run("connect", "cursor", "--apply").returncode == 0
    assert ("ok", "Cursor is connected by .cursor/mcp.json") in clients_in_doctor(desk)
    file = desk.root / ".cursor" / "mcp.json"
    text = file.read_text()
    file.write_text(text.replace("${workspaceFolder}", "/elsewhere"))
    entry = "Cursor: the entry in .cursor/mcp.json"
    assert ("warn", f"{entry} is about another root") in clients_in_doctor(desk)
    value = json.loads(text)
    value["mcpServers"]["flytui"]["command"] = "/nowhere/flytui"
    file.write_text(json.dumps(value))
    assert ("warn", f"{entry} starts /nowhere/flytui, which is not there") in clients_in_doctor(desk)
