"""Writing a rule into a file that a person keeps."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from flycore.policy import rule_file
from flycore.policy.files import load_draft
from flycore.policy.rule_file import append_rule
from flycore.policy.rules import RuleLayer
from flycore.registry.jsonc.parse import read_jsonc

NEW = {"tool": "web.fetch", "decision": "allow", "because": "docs", "match": [{"tool": "web.fetch"}]}
OLD = '{"tool": "file.*", "decision": "deny", "because": "no"}'

FILES = [
    '{"schemaVersion": 1, "rules": []}',
    '{"schemaVersion": 1, "rules": [\n]}\n',
    '{"schemaVersion": 1, "rules": [ // none yet\n  ]}',
    '{"schemaVersion": 1, "rules": [/* none */]}',
    f'{{"schemaVersion": 1, "rules": [{OLD}]}}',
    f'{{"schemaVersion": 1, "rules": [{OLD},]}}',
    f'// mine\n{{"rules": [\n  {OLD} // why\n  , // more\n  /* ] */\n], "schemaVersion": 1}}\n// end',
    f'{{"schemaVersion": 1, "rules": [\n  {OLD}, // the "]" of it\n  {OLD}  // last, no comma\n ]}}',
    f'{{\r\n "schemaVersion": 1,\r\n "rules": [\r\n  {OLD} // crlf\r\n ]\r\n}}\r\n',
    f'{{"schemaVersion": 1, "rules": [{OLD}] /* ] */, "$schema": "x"}}',
    '{"schemaVersion": 1, "rules": [{"tool": "*", "decision": "allow", "because": "bad", "wehn": 1}]}',
]


@pytest.mark.parametrize("text", FILES)
@pytest.mark.parametrize("long", [False, True])
def test_only_the_rule_is_added(tmp_path: Path, text: str, long: bool) -> None:
    path = tmp_path / "policy.jsonc"
    path.write_bytes(text.encode())
    path.chmod(0o640)
    rule = {**NEW, "because": "docs, " * 30} if long else NEW
    done = append_rule(path, rule)
    assert done.written, done.why_not
    written = path.read_bytes().decode()
    before, after = read_jsonc(text, "")[0], read_jsonc(written, "")[0]
    assert isinstance(before, dict)
    assert after == {**before, "rules": [*before["rules"], rule]}
    rest = iter(written)
    assert all(char in rest for char in text), "nothing of the old text is lost or moved"
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["policy.jsonc"]
    loaded, _ = load_draft(path, RuleLayer.USER, frozenset())
    assert loaded.rules[-1].place == done.where
    assert loaded.rules[-1].tool == "web.fetch"


def test_a_file_is_made_where_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "config" / "flytui" / "policy.jsonc"
    for count in (1, 2, 3):
        assert append_rule(path, NEW).written
        assert len(load_draft(path, RuleLayer.USER, frozenset())[0].rules) == count
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "rule",
    [
        {**NEW, "match": [{"tool": "Web.fetch"}]},
        {**NEW, "tool": "web_fetch"},
        {**NEW, "when": {"required": ["url"]}, "match": [{"input": {}}]},
        {**NEW, "decision": "always"},
        {**NEW, "when": {"url": "x"}},
        {**NEW, "expires": "tomorrow"},
        {**NEW, "remember": True},
        {"tool": "*"},
        {},
    ],
)
def test_a_rule_that_would_not_hold_is_not_written(tmp_path: Path, rule: Any) -> None:
    path = tmp_path / "policy.jsonc"
    path.write_text(FILES[4])
    done = append_rule(path, rule)
    assert not done.written
    assert done.why_not
    assert done.diagnostics
    assert path.read_text() == FILES[4]


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, "\ud800"])
def test_what_is_no_json_is_not_written(tmp_path: Path, value: object) -> None:
    path = tmp_path / "policy.jsonc"
    assert not append_rule(path, {**NEW, "because": value}).written  # type: ignore[dict-item] # the point
    assert not path.exists()


@pytest.mark.parametrize(
    "text",
    ["{", "", "[]", '{"rules": []}', '{"schemaVersion": 1, "rules": [], "rules": []}', "\xff", "\0"],
)
def test_a_file_that_does_not_parse_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "policy.jsonc"
    path.write_bytes(text.encode("latin-1"))
    done = append_rule(path, NEW)
    assert (done.written, bool(done.why_not)) == (False, True)
    assert path.read_bytes() == text.encode("latin-1")


def test_a_link_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").write_text(FILES[0])
    (tmp_path / "policy.jsonc").symlink_to("dotfiles")
    done = append_rule(tmp_path / "policy.jsonc", NEW)
    assert "link" in done.why_not
    assert (tmp_path / "policy.jsonc").is_symlink()
    assert (tmp_path / "dotfiles").read_text() == FILES[0]


def test_a_write_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rival says *saved* though the write failed."""
    path = tmp_path / "policy.jsonc"
    path.write_text(FILES[0])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rule_file, "write_atomic", full)
    done = append_rule(path, NEW)
    assert (done.written, "No space left" in done.why_not) == (False, True)


def test_a_write_that_did_not_arrive_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "policy.jsonc"
    path.write_text(FILES[0])
    monkeypatch.setattr(rule_file, "write_atomic", lambda *_: None)
    assert not append_rule(path, NEW).written


def test_a_file_changed_meanwhile_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "policy.jsonc"
    path.write_text(FILES[0])
    judge = rule_file.read_policy

    def edited_by_a_person(*given: Any) -> Any:
        path.write_text(FILES[4])
        return judge(*given)

    monkeypatch.setattr(rule_file, "read_policy", edited_by_a_person)
    done = append_rule(path, NEW)
    assert (done.written, "changed" in done.why_not) == (False, True)
    assert path.read_text() == FILES[4]


def test_what_cannot_be_seen_is_written_in_ascii(tmp_path: Path) -> None:
    path = tmp_path / "policy.jsonc"
    assert append_rule(path, {**NEW, "because": "grüße"}).written
    assert "grüße" in path.read_text()
    assert append_rule(path, {**NEW, "because": "a\u202eb"}).written
    assert "\u202e" not in path.read_text()
    assert json.loads(path.read_text())["rules"][1]["because"] == "a\u202eb"
