"""Edits of clients' files: what is wanted is there, nothing else changed, and all of it can be taken back."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest
from ruamel.yaml import YAML

from flycore.discovery.agent_clients.edit import Piece, add_values, current, read_value, snippet, take_back
from flycore.discovery.agent_clients.record import WrittenFile, WrittenValue, digest_of_text, restored
from flycore.discovery.agent_clients.table import BY_ID, CLIENTS, Connection, Form, Part, Wanted
from kits.tables import each_row

HERE = Connection("flytui", "/home/you/shop")
ALL = frozenset(Part)
TEXTS: dict[Form, tuple[str, ...]] = {
    Form.JSONC: (
        "{}",
        "{ }\n",
        '{\n  // mine\n  "theme": "dark", // stays\n}\n',
        '{"mcpServers": {"other": {"command": "x"}}, "hooks": {"PreToolUse": [{"matcher": "Bash"}]}}',
        '{\n\t"mcp": {\n\t\t"a": {"type": "local"} /* here */\n\t},\n\t"permissions": {"allow": ["Read"]}\n}',
        '{\r\n  "servers": {},\r\n  "context_servers": {}\r\n}\r\n',
    ),
    Form.TOML: (
        "",
        'model = "x" # mine\n\n[mcp_servers.other]\ncommand = "y"',
        '[projects."/a"]\ntrust_level = "trusted"\n\n[[hooks.PreToolUse]]\nmatcher = "Bash"\n',
    ),
    Form.YAML: (
        "",
        "GOOSE_MODE: auto # mine\n",
        "extensions:\n  # first\n  developer:\n    enabled: true\nGOOSE_MODEL: x\n",
        "extensions:\n    developer:\n        enabled: true",
        "extensions:\nGOOSE_MODEL: x\n",
    ),
}


def parts_by_file(client: str, connection: Connection = HERE) -> dict[Any, tuple[Wanted, ...]]:
    files: dict[Any, tuple[Wanted, ...]] = {}
    for one in BY_ID[client].wanted(connection, ALL):
        files[one.file] = (*files.get(one.file, ()), one)
    return files


def parsed(text: str, form: Form) -> Any:
    """The value by an independent reader."""
    if form is Form.TOML:
        return tomllib.loads(text)
    if form is Form.YAML:
        return YAML(typ="safe", pure=True).load(text) or {}
    return read_value(text, form)


CASES = [
    (client.id, file, text)
    for client in CLIENTS
    for file in parts_by_file(client.id)
    for text in TEXTS[file.form]
]


@each_row(("client", "file", "text"), CASES)
def test_an_entry_is_added_to_any_file_and_taken_back_byte_by_byte(client: str, file: Any, text: str) -> None:
    wants = parts_by_file(client)[file]
    made = add_values(text, file.form, wants)
    assert made.why_not == ""
    value = parsed(made.text, file.form)
    assert all(current(value, one) == one.value for one in wants)
    assert take_back(made.text, made.pieces) == text
    again = add_values(made.text, file.form, wants)
    assert again.why_not.startswith("it has another entry at /")


@each_row(("client", "file", "text"), CASES)
def test_of_a_file_that_was_changed_since_only_the_entry_goes(client: str, file: Any, text: str) -> None:
    wants = parts_by_file(client)[file]
    made = add_values(text, file.form, wants)
    written = WrittenFile(
        client=client,
        path=file.path,
        in_home=file.in_home,
        form=file.form,
        created=False,
        before=digest_of_text(text),
        after=digest_of_text(made.text),
        pieces=tuple((piece.at, piece.text) for piece in made.pieces),
        values=tuple(
            WrittenValue(part=one.part, pointer=one.pointer, value=one.value, is_item=one.is_item)
            for one in wants
        ),
    )
    assert restored(made.text, written).text == text
    comment = "// later\n" if file.form is Form.JSONC else "# later\n"
    left = restored(comment + made.text, written)
    assert left.text is not None
    assert left.text.startswith(comment)
    value = parsed(left.text, file.form)
    assert all(current(value, one) is None for one in wants)
    by_hand = re.sub(r'"mcp"(?=\s*\])', '"mcp2"', made.text).replace(" hook ", " hook2 ")
    assert "by hand" in restored(by_hand, written).why_not


@pytest.mark.parametrize(
    ("form", "text", "why_not"),
    [
        (Form.JSONC, '{"mcpServers": []}', "/mcpServers is not an object"),
        (
            Form.JSONC,
            '{"mcpServers": {"flytui": {}}}',
            "it has another entry at /mcpServers/flytui: remove that first",
        ),
        (Form.JSONC, "{", "it cannot be read as it is: correct it first"),
        (Form.JSONC, '{"a": 1, "a": 2}', "a key is written twice: correct it first"),
    ],
)
def test_a_file_of_another_form_is_left_alone(form: Form, text: str, why_not: str) -> None:
    assert add_values(text, form, (BY_ID["claude-code"].server(HERE),)).why_not == why_not


@each_row(
    ("client", "text"),
    [
        ("codex", "mcp_servers = {}\n"),
        ("codex", '[mcp_servers]\nflytui = {command = "x"}\n'),
        ("codex", 'x = """\n'),
        ("goose", "extensions: {}\n"),
        ("goose", "- a\n"),
        ("goose", "extensions: &x\n  a: 1\n"),
    ],
)
def test_toml_and_yaml_that_a_block_does_not_fit_are_left_alone(client: str, text: str) -> None:
    wanted = BY_ID[client].server(HERE)
    assert add_values(text, wanted.file.form, (wanted,)).why_not


def test_files_of_the_project_name_no_folder_of_this_machine() -> None:
    inside = Connection("/home/you/shop/.venv/bin/flytui", "/home/you/shop")
    for client in CLIENTS:
        for one in client.wanted(inside, ALL):
            assert ("/home/you" in json.dumps(one.value)) is one.file.in_home, client.id
    claude = BY_ID["claude-code"].wanted(inside, ALL)
    assert claude[0].value == {
        "type": "stdio",
        "command": ".venv/bin/flytui",
        "args": ["mcp"],
        "alwaysLoad": True,
    }
    hook = json.dumps(claude[1].value)
    assert r"\"$CLAUDE_PROJECT_DIR\"/.venv/bin/flytui --root \"$CLAUDE_PROJECT_DIR\" hook claude-code" in hook


def test_the_address_goes_into_the_file_and_the_token_does_not() -> None:
    at = Connection("flytui", "/home/you/shop", "http://127.0.0.1:8788/mcp")
    for client in CLIENTS:
        text = snippet(client.server(at).file.form, (client.server(at),))
        assert "http://127.0.0.1:8788/mcp" in text, client.id
        assert "FLYTUI_TOKEN" in text, client.id
        assert 'mcp"]' not in text


def test_codex_waits_for_it_and_passes_on_the_folders() -> None:
    value = tomllib.loads(snippet(Form.TOML, (BY_ID["codex"].server(HERE),)))["mcp_servers"]["flytui"]
    assert value["required"] is True
    assert "XDG_RUNTIME_DIR" in value["env_vars"]


def test_pieces_keep_their_places_when_a_later_edit_lies_within_them() -> None:
    first = BY_ID["claude-code"].server(HERE)
    inner = Wanted(Part.SERVER, first.file, "/mcpServers/more", {"command": "x"})
    made = add_values("{}", Form.JSONC, (first, inner))
    assert take_back(made.text, made.pieces) == "{}"
    assert take_back(made.text.replace("x", "y"), made.pieces) is None
    assert take_back("abc", (Piece(1, "b"),)) == "ac"
