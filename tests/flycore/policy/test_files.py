"""Policy files as people and clones bring them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from flycore.model.enums import Decision
from flycore.policy.conditions import matches, misspelt, nearest_patterns
from flycore.policy.evaluate import Policy, evaluate_general, load_policy
from flycore.policy.files import RuleLayer, read_policy
from kits.tables import each_row


@dataclass
class Folders:
    """The two of `Places` that policy looks at, and what was loaded last."""

    config_dir: Path
    app_root: Path
    last: Policy | None = None
    names: frozenset[str] = field(default_factory=frozenset)

    def user(self, text: str) -> Policy:
        (self.config_dir / "policy.jsonc").write_text(text)
        return self.load()

    def project(self, text: str) -> Policy:
        (self.app_root / "tools" / "policy.jsonc").write_text(text)
        return self.load()

    def load(self) -> Policy:
        self.last = load_policy(self, self.last, names=self.names)
        return self.last


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    (tmp_path / "config").mkdir()
    (tmp_path / "app" / "tools").mkdir(parents=True)
    return Folders(tmp_path / "config", tmp_path / "app")


def document(*rules: object) -> str:
    return json.dumps({"schemaVersion": 1, "rules": list(rules)}, indent=1)


def rule(tool: object = "web.*", decision: object = "deny", **more: object) -> dict[str, object]:
    return {"tool": tool, "decision": decision, "because": "reason", **more}


def in_force(policy: Policy) -> list[tuple[str, str]]:
    return [(item.tool, str(item.decision)) for item in policy.rules]


def test_a_file_is_parsed_again_only_if_its_bytes_changed(folders: Folders) -> None:
    path = folders.config_dir / "policy.jsonc"
    first = folders.user(document(rule("web.fetch")))
    os.utime(path, (1, 1))
    again = folders.load()
    assert again.rules[0] is first.rules[0]
    facts = path.stat()
    changed = folders.user(document(rule("web.fetcH")))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert (changed.rules[0].tool, folders.load().rules[0].tool) == ("web.fetcH", "web.fetcH")


def test_no_file_is_no_fault(folders: Folders) -> None:
    policy = folders.load()
    assert (policy.ok, policy.rules, policy.diagnostics) == (True, (), ())


def test_a_rule_names_its_line_and_reason(folders: Folders, make_capability, make_entry) -> None:
    policy = folders.user(
        '{"schemaVersion": 1, // mine\n "rules": [\n'
        '  {"tool": "web.*", "decision": "deny", "because": "no web"},\n ]}'
    )
    verdict = evaluate_general(policy, make_capability("web.fetch"), make_entry())
    assert verdict.decision is Decision.DENY
    assert verdict.rules[0].where == f"{folders.config_dir / 'policy.jsonc'}:3"
    assert verdict.rules[0].because == "no web"


@pytest.mark.parametrize(
    ("bad", "left"),
    [
        (rule(when=7), [("web.*", "ask")]),
        (rule(when=True), [("web.*", "ask")]),
        (rule(when={"type": "objekt"}), [("web.*", "ask")]),
        (rule(decision="allow", when={"type": "objekt"}), []),
        (rule(decision="ask", when={"url": {"const": "x"}}), [("web.*", "ask")]),
        (rule(decision="allow", when={"propertis": {"url": {"const": "x"}}}), []),
        (rule(when={"properties": {"url": {"format": "uri"}}}), [("web.*", "ask")]),
        (rule(decision="allow", when={"anyOf": [{"requird": ["url"]}]}), []),
        (rule(when={"pattern": "("}), [("web.*", "ask")]),
        (rule(when={"$ref": "https://example.org/s.json"}), [("web.*", "ask")]),
        (rule(decision="allow", when={"$ref": "file:///etc/passwd"}), []),
        (rule(when={"$schema": "http://json-schema.org/draft-07/schema#"}), [("web.*", "ask")]),
        (rule(caller=7), [("web.*", "ask")]),
        (rule(decision="allow", caller=""), []),
        (rule(caller="c" * 257), [("web.*", "ask")]),
        (rule(expires="2030-01-01"), [("web.*", "ask")]),
        (rule(expires="2030-01-01T10:00:00"), [("web.*", "ask")]),
        (rule(decision="allow", expires="tomorrow"), []),
        (rule(expires=1893456000), [("web.*", "ask")]),
        (rule(aplies=1), [("web.*", "ask")]),
        (rule(decision="allow", wehn={}), []),
        (rule(decision="denied"), [("web.*", "ask")]),
        (rule(decision="ALLOW"), [("web.*", "ask")]),
        (rule(decision=None), [("web.*", "ask")]),
        (rule(decision=["allow"]), [("web.*", "ask")]),
        (rule(tool=None), [("*", "ask")]),
        (rule(tool=""), [("*", "ask")]),
        (rule(tool=["web.*"]), [("*", "ask")]),
        (rule(tool="x" * 257), [("*", "ask")]),
        (rule(tool=7, decision="allow"), []),
        ({"tool": "web.*", "decision": "deny"}, [("web.*", "ask")]),
        ({"tool": "web.*", "decision": "allow"}, []),
        (rule(because=" "), [("web.*", "ask")]),
        (rule(match=["file.hash"]), [("web.*", "ask")]),
        (rule(not_match=["web.fetch"]), [("web.*", "ask")]),
        (rule(decision="allow", match=["file.hash"]), []),
        (rule(match="web.fetch"), [("web.*", "ask")]),
        (rule(match=[{}]), [("web.*", "ask")]),
        (rule(match=[{"tool": "web.fetch", "inputs": {}}]), [("web.*", "ask")]),
        (rule(match=[{"input": "x"}]), [("web.*", "ask")]),
        (rule(match=[{"tool": "file.hash", "input": {}}]), [("web.*", "ask")]),
        (rule(when={"required": ["url"]}, match=[{"input": {"uri": "x"}}]), [("web.*", "ask")]),
        (rule(when={"required": ["url"]}, not_match=[{"input": {"url": "x"}}]), [("web.*", "ask")]),
        (rule(decision="allow", caller="claude", match=[{"caller": "codex"}]), []),
        (rule(match=["web.fetch"] * 101), [("web.*", "ask")]),
        ("web.*", [("*", "ask")]),
        (None, [("*", "ask")]),
        ([], [("*", "ask")]),
    ],
)
def test_a_bad_rule_never_lets_more_through(folders: Folders, bad: object, left: list[object]) -> None:
    policy = folders.user(document(rule("good.*", "allow"), bad, rule("also.*", "deny")))
    assert policy.ok
    assert in_force(policy) == [("good.*", "allow"), *left, ("also.*", "deny")]
    assert policy.diagnostics
    for found in policy.diagnostics:
        assert found.pointer.startswith("/rules/1")
        assert found.position is not None
        assert found.position.line > 3
        assert found.remedy


def test_sound_examples_are_accepted(folders: Folders) -> None:
    policy = folders.user(document(rule(match=["web.fetch", "web.search"], not_match=["webx", "file.hash"])))
    assert (in_force(policy), policy.diagnostics) == ([("web.*", "deny")], ())


def test_a_key_given_twice_in_a_rule_asks(folders: Folders) -> None:
    policy = folders.user(
        '{"schemaVersion": 1, "rules": [\n'
        ' {"tool": "a", "decision": "deny", "decision": "allow", "because": "b"}]}'
    )
    assert in_force(policy) == [("*", "ask")]
    assert any(item.rule == "duplicate-key" for item in policy.diagnostics)


def test_the_project_may_only_tighten(folders: Folders) -> None:
    policy = folders.project(document(rule("*", "allow"), rule("web.*", "ask"), rule("task.*", "deny")))
    assert in_force(policy) == [("web.*", "ask"), ("task.*", "deny")]
    assert [item.severity for item in policy.diagnostics] == ["warning"]
    assert policy.ok


BROKEN = [
    "{",
    "",
    "[]",
    "null",
    '{"rules": []}',
    '{"schemaVersion": 2, "rules": []}',
    '{"schemaVersion": true, "rules": []}',
    '{"schemaVersion": 1}',
    '{"schemaVersion": 1, "rules": {}}',
    '{"schemaVersion": 1, "rules": [], "ruls": []}',
    '{"schemaVersion": 1, "rules": [], "rules": []}',
    '{"schemaVersion": 1, "rules": [' + "[" * 100,
    "\0",
]


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_file_keeps_the_last_good_rules(folders: Folders, text: str) -> None:
    before = folders.user(document(rule("web.*", "deny")))
    after = folders.user(text)
    assert (before.ok, after.ok) == (True, False)
    assert in_force(after) == [("web.*", "deny")]
    assert after.diagnostics
    assert all(item.position is not None for item in after.diagnostics)
    again = folders.load()
    assert in_force(again) == [("web.*", "deny")]
    mended = folders.user(document(rule("web.*", "ask")))
    assert (mended.ok, in_force(mended)) == (True, [("web.*", "ask")])


@pytest.mark.parametrize("text", BROKEN)
def test_a_file_broken_from_the_start_asks_for_everything(
    folders: Folders, text: str, make_capability, make_entry
) -> None:
    policy = folders.project(text)
    assert not policy.ok
    verdict = evaluate_general(policy, make_capability(), make_entry(), bundled_unmodified=True)
    assert verdict.decision is Decision.ASK


def test_one_broken_file_leaves_the_other_in_force(folders: Folders) -> None:
    folders.user(document(rule("web.*", "allow")))
    policy = folders.project("{")
    assert in_force(policy) == [("web.*", "allow"), ("*", "ask")]


def test_what_is_no_readable_file_is_not_ok(folders: Folders, tmp_path: Path) -> None:
    (folders.config_dir / "policy.jsonc").mkdir()
    assert not folders.load().ok
    (folders.config_dir / "policy.jsonc").rmdir()
    (tmp_path / "elsewhere.jsonc").write_text(document(rule("*", "allow")))
    (folders.app_root / "tools" / "policy.jsonc").symlink_to(tmp_path / "elsewhere.jsonc")
    assert not folders.load().ok
    (folders.app_root / "tools" / "policy.jsonc").unlink()
    os.mkfifo(folders.config_dir / "policy.jsonc")
    assert not folders.load().ok
    (folders.config_dir / "policy.jsonc").unlink()
    (folders.config_dir / "policy.jsonc").write_bytes(b"\xff\xfe{}")
    assert not folders.load().ok
    (folders.config_dir / "policy.jsonc").write_bytes(b" " * 1_048_577)
    assert not folders.load().ok


def test_the_version_follows_what_the_rules_say(folders: Folders) -> None:
    first = folders.user(document(rule("web.*", "ask"))).version
    assert folders.user("// a comment\n" + document(rule("web.*", "ask"))).version == first
    assert folders.user(document(rule("web.*", "deny"))).version != first
    (folders.config_dir / "policy.jsonc").unlink()
    assert folders.load().version != first
    assert folders.project(document(rule("web.*", "ask"))).version != first


def test_a_pattern_that_misses_a_tool_by_its_spelling_is_told(folders: Folders) -> None:
    folders.names = frozenset({"web.fetch", "file.hash"})
    policy = folders.user(document(rule("web_fetch"), rule("File.Hash"), rule("web.fetch"), rule("wbe.*")))
    assert [item.remedy for item in policy.diagnostics] == [
        "did you mean 'web.fetch'?",
        "did you mean 'file.hash'?",
        "did you mean 'web.*'?",
    ]
    assert {item.severity for item in policy.diagnostics} == {"warning"}
    assert len(policy.rules) == 4
    assert nearest_patterns("wbe.*", folders.names) == ("web.*",)
    assert nearest_patterns("web.fech", folders.names) == ("web.fetch",)


@pytest.mark.parametrize("tool", ["other.tool", "web.find", "shop.*", "web.fetch2", "files.hash_all"])
def test_the_person_s_rule_for_a_tool_of_another_root_is_no_problem(folders: Folders, tool: str) -> None:
    folders.names = frozenset({"web.fetch", "file.hash"})
    policy = folders.user(document(rule(tool)))
    assert policy.diagnostics == ()
    assert len(policy.rules) == 1
    (told,) = folders.project(document(rule(tool))).diagnostics
    assert "matches no known tool" in told.message


@each_row(
    ("pattern", "meant"),
    [
        ("web.fech", "web.fetch"),
        ("web.fetchh", "web.fetch"),
        ("web.fetsh", "web.fetch"),
        ("web.fecth", "web.fetch"),
        ("Web.Fetch", "web.fetch"),
        ("fiel.*", "file.*"),
        ("web.fetch2", None),
        ("web.f", None),
        ("fetch.web", None),
        ("*.never", None),
    ],
)
def test_a_misspelling_is_one_letter_away(pattern: str, meant: str | None) -> None:
    assert misspelt(pattern, frozenset({"web.fetch", "file.hash"})) == meant


@each_row(
    ("pattern", "name", "expected"),
    [
        ("web.fetch", "web.fetch", True),
        ("web.fetch", "web.fetchx", False),
        ("web.fetch", "Web.fetch", False),
        ("web.*", "web.", True),
        ("web.*", "web.a.b", True),
        ("*", "", True),
        ("*.hash", "file.hash", True),
        ("f*.h*h", "file.hash", True),
        ("a*a", "a", False),
        ("ab*ba", "aba", False),
        ("a*b*c", "a-c-b", False),
        ("a*b*c", "abc", True),
        ("**", "x", True),
        ("web.?", "web.x", False),
        ("web.[a-z]", "web.x", False),
        ("web.f", "webxf", False),
        ("a*", "a\nb", True),
        ("*a" * 60 + "b", "a" * 250, False),
    ],
)
def test_patterns(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected


def test_a_project_s_file_with_too_many_rules_asks_for_everything() -> None:
    rules = [{"tool": "*", "decision": "deny", "because": "x"}] * 1_001
    data = json.dumps({"schemaVersion": 1, "rules": rules}).encode()
    read, found = read_policy(data, RuleLayer.PROJECT, "tools/policy.jsonc", frozenset())
    assert not read.ok
    assert "1,001 rules" in found[0].message
    assert read_policy(data, RuleLayer.USER, "policy.jsonc", frozenset())[0].ok
