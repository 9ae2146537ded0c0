"""Rules made of a request, and taking one out of a file that a person keeps."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from flycore.model.approval import MatchedRule, RuleTerms
from flycore.model.enums import Decision, Risk
from flycore.policy.rule_file import expiry_of, read_rules, remove_rule, restore_rule, rule_fault, write_rule
from flycore.registry.jsonc.parse import read_jsonc

NOW = 1_800_000_000.0
FILE = """// my rules
{
  "schemaVersion": 1,
  // the list
  "rules": [
    // first
    {"tool": "web.search", "decision": "allow", "because": "one"}, // after one
    /* second */ {
      "tool": "web.*", // inside
      "decision": "deny", "because": "two"
    } /* before the comma */ ,
    {"tool": "file.hash", "decision": "ask", "because": "three"}
    // the end
  ]
}
"""


def terms(**more) -> RuleTerms:
    base = {"decision": Decision.ALLOW, "tool": "web.fetch", "because": "I said so"}
    return RuleTerms(**{**base, **more})


@pytest.fixture
def request_(make_request):
    return make_request(tool="web.fetch", input={"url": "https://a.example"}, risk=Risk.MEDIUM)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "policy.jsonc"
    file.write_text(FILE)
    return file


def because(path: Path) -> list[str]:
    return [rule.because for rule in read_rules(path)]


@pytest.mark.parametrize("which", [0, 1, 2])
def test_one_rule_is_taken_out_and_every_comment_stays(path: Path, which: int) -> None:
    rules = read_rules(path)
    removed = remove_rule(path, rules[which].where, rules[which].digest)
    assert removed.why_not == ""
    assert because(path) == [word for n, word in enumerate(("one", "two", "three")) if n != which]
    text = path.read_text()
    for comment in (
        "// my rules",
        "// the list",
        "// first",
        "// after one",
        "/* second */",
        "/* before the comma */",
        "// the end",
    ):
        assert comment in text
    assert not any(item.severity.value == "error" for item in read_jsonc(text, "x")[2])
    assert restore_rule(path, removed) == ""
    assert path.read_text() == FILE


def test_all_rules_can_go_one_after_the_other_and_the_file_keeps_its_mode(path: Path) -> None:
    path.chmod(0o640)
    while rules := read_rules(path):
        assert remove_rule(path, rules[0].where, rules[0].digest).rule is not None
    assert read_jsonc(path.read_text(), "x")[0] == {"schemaVersion": 1, "rules": []}
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_stale_list_removes_nothing(path: Path) -> None:
    first, second, _ = read_rules(path)
    assert remove_rule(path, first.where, second.digest).why_not
    newer = FILE.replace('"because": "one"', '"because": "newer"')
    path.write_text(newer)
    assert remove_rule(path, first.where, first.digest).why_not
    path.write_text("\n\n" + FILE)
    assert remove_rule(path, second.where, second.digest).why_not
    assert path.read_text() == "\n\n" + FILE


@pytest.mark.parametrize("text", ["{", "[]", '{"schemaVersion": 1, "rules": 3}', "\udcff"])
def test_a_file_that_does_not_parse_loses_nothing(path: Path, text: str) -> None:
    rule = read_rules(path)[0]
    data = text.encode("utf-8", "surrogateescape")
    path.write_bytes(data)
    assert remove_rule(path, rule.where, rule.digest).why_not
    assert read_rules(path) == ()
    assert path.read_bytes() == data


def test_a_link_and_an_absent_file_lose_nothing(path: Path, tmp_path: Path) -> None:
    rule = read_rules(path)[0]
    link = tmp_path / "link.jsonc"
    link.symlink_to(path)
    assert remove_rule(link, rule.where, rule.digest).why_not
    assert remove_rule(tmp_path / "none", rule.where, rule.digest).why_not
    assert path.read_text() == FILE


def test_undo_after_a_further_change_puts_the_rule_at_the_end(path: Path) -> None:
    first = read_rules(path)[0]
    removed = remove_rule(path, first.where, first.digest)
    path.write_text(path.read_text() + "\n// more\n")
    assert restore_rule(path, removed) == ""
    assert because(path) == ["two", "three", "one"]


def test_a_faulty_rule_is_listed_as_such_and_can_be_removed(path: Path) -> None:
    path.write_text('{"schemaVersion": 1, "rules": [{"tool": "a.b", "decision": "allow"}, 7]}')
    rules = read_rules(path)
    assert rules[0].note
    assert remove_rule(path, rules[0].where, rules[0].digest).why_not == ""


def test_a_rule_of_a_request_carries_the_call_and_holds_for_it(tmp_path: Path, request_) -> None:
    path = tmp_path / "config" / "policy.jsonc"
    when = {"properties": {"url": {"const": "https://a.example"}}, "required": ["url"]}
    rule = terms(when=when, caller="claude", expires="2030-01-31")
    assert rule_fault(request_, rule) == ""
    assert write_rule(path, request_, rule, names=frozenset(), now=NOW).written
    assert path.stat().st_mode & 0o777 == 0o600
    (kept,) = json.loads(path.read_text())["rules"]
    assert kept["match"] == [
        {"tool": "web.fetch", "caller": "/usr/bin/claude", "input": {"url": "https://a.example"}}
    ]
    (listed,) = read_rules(path)
    assert listed.expires == datetime.fromisoformat("2030-02-01").astimezone().timestamp()
    assert listed.note == ""


@pytest.mark.parametrize(
    "wrong",
    [
        {"tool": "Web.Fetch"},
        {"tool": "web_fetch"},
        {"tool": "mcp.*"},
    ],
)
def test_a_rule_that_would_not_match_its_own_call_is_refused(request_, wrong) -> None:
    assert rule_fault(request_, terms(**wrong))


@pytest.mark.parametrize(
    "wrong",
    [
        {"caller": "Claude"},
        {"caller": "another"},
        {"when": {"properties": {"url": {"const": "https://other"}}}},
        {"when": {"propertees": {}}},
        {"because": " "},
        {"expires": "soon"},
        {"expires": "2001-01-01"},
        {"expires": "9999-12-31"},
    ],
)
def test_a_rule_that_would_not_hold_is_not_written(tmp_path: Path, request_, wrong) -> None:
    path = tmp_path / "policy.jsonc"
    done = write_rule(path, request_, terms(**wrong), names=frozenset(), now=NOW)
    assert not done.written
    assert done.why_not
    assert not path.exists()


def test_an_allow_under_a_stricter_rule_would_change_nothing_and_is_refused(make_request) -> None:
    why = (MatchedRule(decision=Decision.ASK, because="b", where="/p/tools/policy.jsonc:4", tool="web.*"),)
    request = make_request(tool="web.fetch", risk=Risk.MEDIUM, why=why)
    assert "/p/tools/policy.jsonc:4" in rule_fault(request, terms())
    assert rule_fault(request, terms(decision=Decision.DENY)) == ""


def test_a_condition_quotes_no_secret(make_request) -> None:
    request = make_request(tool="web.fetch", input={"url": "s3cret"}, input_json='{"url":"•••"}')
    assert rule_fault(request, terms(when={"required": ["url"]}))
    assert rule_fault(request, terms()) == ""


def test_a_day_ends_at_its_midnight() -> None:
    assert expiry_of("") is None
    assert expiry_of("2030-12-31").isoformat().startswith("2031-01-01T00:00:00")
