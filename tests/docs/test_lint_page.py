"""docs/lint.md names every rule of `flytui lint`, and each of its examples triggers its rule."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from flycore.model.diagnostics import Diagnostic
from flycore.offline.lint import KINDS, lint_root
from flycore.registry.paths import find_paths
from flytui.cli.commands.lint import KINDS as CHOICES
from flytui.cli.settings_text import settings_problems

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "lint.md").read_text()
TABLE = dict(re.findall(r"^\| `([a-z0-9-]+)` \| ([a-z, ]+) \|", PAGE, re.MULTILINE))
EXAMPLES = re.findall(r"^```\w+ lint ([a-z0-9-]+) (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
CHECKED = (
    "core/flycore/registry",
    "core/flycore/policy",
    "core/flycore/discovery",
    "core/flycore/offline",
    "core/flycore/catalog/proposed_entries.py",
    "core/flycore/catalog/registry_capability.py",
)
"""The modules whose findings `flytui lint` reports."""
RULE_AT = {
    "add": 1,
    "warn": 1,
    "inform": 1,
    "whole_file": 1,
    "_problem": 1,
    "add_warning": 1,
    "_frame_finding": 2,
    "finding": 4,
}
"""The functions that make findings, each with the place of the rule among its arguments."""
ELSEWHERE = {"shadowed", "bundle-entry"}
"""Rules of these modules that only the catalog shows: two files of one name are no fault of either, and an
entry of a bundle that gives way to one of the root is no fault of the root's files."""


def written_rules() -> set[str]:
    """The ids of all rules in the source text of the modules."""
    return set().union(*(rules_of(ast.parse(path.read_text())) for path in modules()))


def modules() -> list[Path]:
    paths = [ROOT / name for name in CHECKED]
    return [file for path in paths for file in ([path] if path.is_file() else path.rglob("*.py"))]


def rules_of(tree: ast.Module) -> set[str]:
    """The rules that one module names, as texts or by a constant of its own."""
    constants = {
        node.targets[0].id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        named = [keyword.value for keyword in node.keywords if keyword.arg == "rule"]
        at = RULE_AT.get(name)
        if not named and at is not None and len(node.args) > at + 1:
            named = [node.args[at]]
        for part in (leaf for value in named for leaf in ast.walk(value)):
            value = constants.get(part.id) if isinstance(part, ast.Name) else part
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found.add(value.value)
    # The reader of YAML gives its rules behind a place and a pointer; their names are like no other text.
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    found |= {text for text in texts if isinstance(text, str) and re.fullmatch("yaml-[a-z]+", text)}
    return {rule for rule in found if re.fullmatch(r"[a-z0-9][a-z0-9-]+", rule)} - ELSEWHERE


def test_the_table_names_every_rule_and_no_other() -> None:
    assert set(TABLE) == written_rules()
    assert list(TABLE) == sorted(TABLE)


def test_every_rule_has_an_example() -> None:
    named = [rule for rule, _, _ in EXAMPLES]
    assert sorted([*named, *MADE]) == sorted(TABLE)


def found_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Diagnostic, ...]:
    """What `flytui lint` finds in a root."""
    environ = {"HOME": str(folder / "home"), "XDG_CONFIG_HOME": str(folder / "home")}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    places = find_paths(str(folder), None, environ, folder)
    return lint_root(places, settings_problems).diagnostics


@pytest.mark.parametrize(("rule", "name", "text"), EXAMPLES, ids=[rule for rule, _, _ in EXAMPLES])
def test_the_example_triggers_its_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str, name: str, text: str
) -> None:
    # The settings are the person's own: their example lies in the config folder.
    file = tmp_path / name.replace("config/config.jsonc", "home/flytui/config.jsonc")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    of_rule = [item for item in found_in(tmp_path, monkeypatch) if item.rule == rule]
    assert of_rule
    for item in of_rule:
        assert item.severity.value in TABLE[rule]
        assert item.position is not None
        assert item.position.line <= text.count("\n") + 1
        assert item.message
        assert item.remedy


def in_utf16(root: Path) -> None:
    (root / "tools").mkdir()
    (root / "tools" / "external.tools.jsonc").write_bytes('{"schemaVersion": 2}'.encode("utf-16"))


def as_a_folder(root: Path) -> None:
    (root / "tools" / "external.tools.jsonc").mkdir(parents=True)


def with_too_many(root: Path) -> None:
    kits = ",".join(f'{{"id": "k{at}", "kind": "cli", "name": "n", "version": "1"}}' for at in range(300))
    (root / "tools" / "kits").mkdir(parents=True)
    (root / "tools" / "kits" / "kits.jsonc").write_text(f'{{"schemaVersion": 1, "kits": [{kits}]}}')


MADE: dict[str, Callable[[Path], None]] = {
    "encoding": in_utf16,
    "unreadable": as_a_folder,
    "too-many": with_too_many,
}
"""What the page describes in words, because no block of it can show it."""


@pytest.mark.parametrize("rule", MADE)
def test_what_the_page_describes_triggers_its_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    MADE[rule](tmp_path)
    assert rule in {item.rule for item in found_in(tmp_path, monkeypatch)}


def test_the_command_names_every_kind() -> None:
    assert CHOICES == KINDS
    assert [kind for kind in KINDS if f"`{kind}`" not in PAGE] == []
