"""Rules that ask for a caller, an input or a time, and what they say where one of these is not known."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from flycore.catalog import check_process
from flycore.model.approval import Verdict
from flycore.model.call import Caller
from flycore.model.enums import Decision, Level
from flycore.policy.evaluate import Policy, evaluate, expired_rules, load_policy
from flycore.policy.files import SystemFile
from flycore.registry.published_schemas import published_schema
from kits.recursive_schemas import DOUBLING, nested, without_end

CODEX = Caller(door="socket", program="codex", executable="/opt/codex/bin/codex", pid=9, started=1)
NOON = "2030-01-31T12:00:00+00:00"
NOON_UNIX = 1_896_091_200.0


@dataclass
class Folders:
    """The two of `Places` that policy looks at."""

    config_dir: Path
    app_root: Path

    def user(self, *rules: object, **more: Any) -> Policy:
        (self.config_dir / "policy.jsonc").write_text(json.dumps({"schemaVersion": 1, "rules": rules}))
        return load_policy(self, None, **more)

    def project(self, *rules: object, **more: Any) -> Policy:
        (self.app_root / "tools" / "policy.jsonc").write_text(
            json.dumps({"schemaVersion": 1, "rules": rules})
        )
        return load_policy(self, None, **more)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    (tmp_path / "config").mkdir()
    (tmp_path / "app" / "tools").mkdir(parents=True)
    return Folders(tmp_path / "config", tmp_path / "app")


@pytest.fixture
def ask(make_capability: Any, make_entry: Any) -> Callable[..., Verdict]:
    """The verdict on a call that the default would ask about."""

    def verdict(policy: Policy, tool: str = "web.fetch", **call: Any) -> Verdict:
        known = {"input": {}, "caller": CODEX, "now": NOON_UNIX - 1, **call}
        return evaluate(
            policy,
            make_capability(tool),
            make_entry(),
            level=Level.NONE,
            bundled_unmodified=False,
            **known,
        ).verdict

    return verdict


def rule(decision: str = "allow", tool: str = "web.*", **more: object) -> dict[str, object]:
    return {"tool": tool, "decision": decision, "because": f"{decision} it", **more}


WHEN_URL = {"properties": {"url": {"pattern": "^https://docs\\."}}, "required": ["url"]}


@pytest.mark.parametrize(
    ("condition", "call", "fits"),
    [
        ({"caller": "codex"}, {}, True),
        ({"caller": "code*"}, {}, True),
        ({"caller": "Codex"}, {}, False),
        ({"caller": "claude"}, {}, False),
        ({"caller": "/opt/*"}, {}, True),
        ({"caller": "*/codex"}, {}, True),
        ({"caller": "/usr/bin/codex"}, {}, False),
        ({"caller": "bin/codex"}, {}, False),
        ({"when": WHEN_URL}, {"input": {"url": "https://docs.python.org"}}, True),
        ({"when": WHEN_URL}, {"input": {"url": "https://example.org"}}, False),
        ({"when": WHEN_URL}, {"input": {}}, False),
        ({"when": {"$ref": "#/$defs/u", "$defs": {"u": WHEN_URL}}}, {"input": {"url": "x"}}, False),
        ({"when": {"not": {"required": ["body"]}}}, {"input": {"url": "x"}}, True),
        ({"expires": NOON}, {}, True),
        ({"expires": NOON}, {"now": NOON_UNIX}, False),
        ({"expires": "2030-01-31T13:00:00+01:00"}, {"now": NOON_UNIX - 1}, True),
        ({"expires": "2030-01-31T13:00:00+01:00"}, {"now": NOON_UNIX}, False),
        ({"expires": "2030-01-31T12:00:00Z", "caller": "codex"}, {}, True),
        ({"caller": "codex", "when": WHEN_URL}, {"input": {"url": "https://docs.x"}}, True),
        ({"caller": "other", "when": WHEN_URL}, {"input": {"url": "https://docs.x"}}, False),
    ],
)
@pytest.mark.parametrize("decision", ["allow", "deny"])
def test_a_condition_counts(
    folders: Folders, ask: Callable[..., Verdict], condition: Any, call: Any, fits: bool, decision: str
) -> None:
    policy = folders.user(rule(decision, **condition))
    assert [item for item in policy.diagnostics if item.severity == "error"] == []
    verdict = ask(policy, **call)
    assert verdict.decision == (decision if fits else "ask")
    assert (verdict.rules[0].where != "default") is fits


UNKNOWN_CALLER = Caller(door="socket", program="unknown", pid=9)
HIDDEN_PATH = Caller(door="socket", program="codex", pid=9)


@pytest.mark.parametrize(
    ("condition", "call"),
    [
        ({"caller": "codex"}, {"caller": None}),
        ({"caller": "codex"}, {"caller": UNKNOWN_CALLER}),
        ({"caller": "/opt/*"}, {"caller": HIDDEN_PATH}),
        ({"when": WHEN_URL}, {"input": None}),
        ({"expires": NOON}, {"now": None}),
    ],
)
def test_what_is_not_known_neither_allows_nor_passes(
    folders: Folders, ask: Callable[..., Verdict], condition: Any, call: Any
) -> None:
    allowed = folders.user(rule("allow", "*"), rule("allow", **condition))
    assert ask(allowed, **call).decision is Decision.ALLOW
    assert [item.where.rpartition(":")[2] for item in ask(allowed, **call).rules] == ["1"]
    assert ask(folders.user(rule("allow", **condition)), **call).rules[0].where == "default"
    denied = ask(folders.user(rule("allow", "*"), rule("deny", **condition)), **call)
    assert denied.decision is Decision.ASK
    assert "depending on" in denied.rules[1].because


def test_a_condition_that_cannot_be_checked_neither_allows_nor_lets_a_deny_fall_away(
    folders: Folders, ask: Callable[..., Verdict]
) -> None:
    costly = {"when": without_end()}
    given: Any = {"input": {"a": "x"}}
    assert ask(folders.user(rule("allow", **costly)), **given).rules[0].where == "default"
    denied = ask(folders.user(rule("allow", "*"), rule("deny", **costly)), **given)
    assert denied.decision is Decision.ASK


def test_costly_conditions_are_checked_only_so_many_times(
    folders: Folders, ask: Callable[..., Verdict], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[Any] = []

    def check(schema: Any, value: Any) -> bool:
        checked.append(value)
        return False

    monkeypatch.setattr(check_process, "fits_in_process", check)
    policy = folders.user(rule("allow", "*"), *[rule("deny", when=DOUBLING) for _ in range(200)])
    assert ask(policy, input={"a": nested(40)}).decision is Decision.ASK
    assert 0 < len(checked) <= 20
    plain = folders.user(rule("allow", "*"), *[rule("deny", when=DOUBLING) for _ in range(10)])
    assert ask(plain, input={"a": nested(40)}).decision is Decision.ALLOW


def test_an_example_that_costs_a_process_is_a_fault_and_not_tried(folders: Folders) -> None:
    [fault] = folders.user(rule("deny", when=DOUBLING, match=[{"input": {"a": nested(20)}}])).diagnostics
    assert (fault.severity, fault.message) == ("error", "the example is too large to be tried")


def test_what_a_client_claims_is_matched_by_nothing(folders: Folders, ask: Callable[..., Verdict]) -> None:
    liar = Caller(door="socket", program="codex", executable="/opt/codex", pid=9, claims="claude")
    for pattern in ("claude", "*claude*", "/*claude*"):
        assert ask(folders.user(rule(caller=pattern)), caller=liar).rules[0].where == "default"


def test_an_expired_deny_no_longer_denies_but_is_named(folders: Folders, ask: Callable[..., Verdict]) -> None:
    policy = folders.user(rule("deny", expires=NOON), rule("allow", "file.*"))
    assert ask(policy).decision is Decision.DENY
    over = ask(policy, now=NOON_UNIX)
    assert over.decision is Decision.ASK
    assert f"the deny at {folders.config_dir / 'policy.jsonc'}:1 has expired" in over.rules[0].because
    assert expired_rules(policy, NOON_UNIX - 1) == ()
    [named] = expired_rules(policy, NOON_UNIX)
    assert named.position is not None
    assert (named.severity, named.position.line) == ("warning", 1)


def test_an_expired_rule_is_another_policy(folders: Folders) -> None:
    policy = folders.user(rule(expires=NOON))
    assert policy.version_at(NOON_UNIX - 1) == policy.version
    assert policy.version_at(NOON_UNIX) != policy.version
    assert policy.version_at(NOON_UNIX) == policy.version_at(NOON_UNIX + 9)


@pytest.mark.parametrize(
    "change",
    [
        {"tool": "web.f*"},
        {"decision": "ask"},
        {"because": "another"},
        {"caller": "codex"},
        {"when": {"required": ["url"]}},
        {"expires": NOON},
    ],
)
def test_the_version_covers_everything_that_decides(folders: Folders, change: Any) -> None:
    plain = folders.user(rule()).version
    assert folders.user({**rule(), **change}).version != plain
    assert folders.user(rule(match=["web.fetch"])).version == plain


def test_an_allow_whose_condition_is_met_by_nothing_at_all_is_told(folders: Folders) -> None:
    open_when = {"properties": {"url": {"const": "x"}, "depth": {"const": 1}}, "required": ["url"]}
    [doubt] = folders.user(rule(when=open_when)).diagnostics
    assert (doubt.severity, "'depth'" in doubt.message) == ("warning", True)
    assert folders.user(rule("deny", when=open_when)).diagnostics == ()


def test_sound_examples_with_inputs_are_accepted(folders: Folders) -> None:
    policy = folders.user(
        rule(
            when=WHEN_URL,
            caller="codex",
            match=[
                {"input": {"url": "https://docs.x"}},
                {"tool": "web.fetch", "input": {"url": "https://docs.x"}, "caller": "codex"},
                "web.search",
            ],
            not_match=[
                {"input": {"url": "https://x"}},
                {"tool": "file.hash", "input": {"url": "https://docs.x"}},
                {"caller": "/usr/bin/claude"},
            ],
        )
    )
    assert (len(policy.rules), policy.diagnostics) == (1, ())


def test_a_bad_rule_names_file_line_and_column(folders: Folders) -> None:
    text = '{"schemaVersion": 1, "rules": [\n  {"tool": "web.*", "decision": "deny", "because": "b",\n'
    text += '   "when": {"properties": {"url": {"patern": "x"}}}}]}'
    (folders.config_dir / "policy.jsonc").write_text(text)
    [fault] = load_policy(folders, None).diagnostics
    assert str(fault.position) == f"{folders.config_dir / 'policy.jsonc'}:3:46"
    assert "'patern'" in fault.message


# --- layers


@pytest.fixture
def system(tmp_path: Path) -> SystemFile:
    """A system's file that belongs to whoever runs the tests."""
    folder = tmp_path / "etc"
    folder.mkdir(mode=0o755)
    return SystemFile(folder / "policy.jsonc", os.geteuid())


def write(system: SystemFile, *rules: object, mode: int = 0o644) -> None:
    system.path.write_text(json.dumps({"schemaVersion": 1, "rules": rules}))
    system.path.chmod(mode)


def test_the_strictest_of_three_files_wins(
    folders: Folders, system: SystemFile, ask: Callable[..., Verdict]
) -> None:
    write(system, rule("deny", "web.*"), rule("allow", "file.*"))
    folders.project(rule("ask", "file.hash"))
    policy = folders.user(rule("allow", "*"), system=system)
    assert [layer.source for layer in policy.layers] == ["system", "user", "project"]
    assert ask(policy, "web.fetch").decision is Decision.DENY
    assert ask(policy, "file.hash").decision is Decision.ASK
    assert ask(policy, "file.list").decision is Decision.ALLOW
    assert len(ask(policy, "file.hash").rules) == 3


def test_no_system_file_is_no_fault(folders: Folders, system: SystemFile, tmp_path: Path) -> None:
    assert folders.user(system=system).ok
    assert folders.user(system=SystemFile(tmp_path / "nowhere" / "policy.jsonc")).ok


@pytest.mark.parametrize("fault", ["group", "others", "folder", "owner"])
def test_a_system_file_others_could_write_is_ignored_loudly(
    folders: Folders, system: SystemFile, ask: Callable[..., Verdict], fault: str
) -> None:
    write(system, rule("allow", "*"))
    if fault == "folder":
        system.path.parent.chmod(0o777)
    elif fault == "owner":
        system = system._replace(owner=os.geteuid() + 1)
    else:
        system.path.chmod(0o644 | (stat.S_IWGRP if fault == "group" else stat.S_IWOTH))
    policy = folders.user(system=system)
    assert not policy.ok
    assert [item.severity for item in policy.diagnostics] == ["error"]
    assert "ignored" in policy.diagnostics[0].message
    assert ask(policy).rules[0].where == "default"


@pytest.mark.parametrize("broken", ["{", "link", "folder"])
def test_a_broken_system_file_asks(
    folders: Folders, system: SystemFile, ask: Callable[..., Verdict], broken: str, tmp_path: Path
) -> None:
    if broken == "link":
        (tmp_path / "elsewhere").write_text('{"schemaVersion": 1, "rules": []}')
        system.path.symlink_to(tmp_path / "elsewhere")
    elif broken == "folder":
        system.path.mkdir()
    else:
        system.path.write_text(broken)
    policy = folders.user(rule("allow", "*"), system=system)
    assert not policy.ok
    assert ask(policy).decision is Decision.ASK


# --- the schema that editors use


@pytest.mark.parametrize(
    ("item", "good"),
    [
        (rule(), True),
        (rule(when=WHEN_URL, caller="codex", expires=NOON), True),
        (rule(caller="a", match=["web.fetch", {"input": {}}], not_match=[{"caller": "x"}]), True),
        (rule("permit"), False),
        (rule(tool=""), False),
        (rule(when=True), False),
        (rule(caller=""), False),
        (rule(expires=7), False),
        (rule(match=[{}]), False),
        (rule(match="web.fetch"), False),
        (rule(wehn={}), False),
        ({"tool": "web.*", "decision": "deny"}, False),
    ],
)
def test_the_schema_and_the_reader_agree(folders: Folders, item: Any, good: bool) -> None:
    schema = published_schema("policy")
    jsonschema.Draft202012Validator.check_schema(schema)
    document = {"schemaVersion": 1, "rules": [item]}
    assert jsonschema.Draft202012Validator(schema).is_valid(document) is good
    errors = [found for found in folders.user(item).diagnostics if found.severity == "error"]
    assert (errors == []) is good
