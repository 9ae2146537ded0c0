"""Switching an entry by an edit: what it says is right, and every other character stays."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyjson5
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flycore.catalog.builtin import KNOWN
from flycore.model.enums import Source
from flycore.registry.edits import starter_entries, switch_entry, switch_in_text
from flycore.registry.paths import REGISTRY_FILE, find_paths
from flysafe.text import safe_text
from kits.suites import examples

GAPS = st.sampled_from(["", " ", "\n", "\r\n  ", "\t", '/* } ", */', "// ' { ,\n", "\n  // why\n  "])
VALUES = st.sampled_from(
    ['"./x"', "[]", '["a", /* , */ "b",]', '{"enabled": false, "disabledReason": "inner"}', "{}", "1", "null"]
)
REASONS = st.text(max_size=12) | st.sampled_from(["", 'quote " and \\', "line\nbreak", "\u202e", "naïve"])
_REASON = r'"disabledReason": "(?:[^"\\]|\\.)*"'
ADDED = re.compile(rf'\s*(?:, )?(?:"enabled": (?:true|false))?(?:, )?(?:{_REASON})?,?\s*')


@st.composite
def entries(draw: st.DrawFn) -> tuple[list[tuple[str, str]], list[str]]:
    """Members of an entry as (key, value text), and gaps: four a member, one before the closing brace."""
    names = draw(st.lists(st.sampled_from(["command", "config", "args", "env"]), unique=True, max_size=3))
    members = [(name, draw(VALUES)) for name in names]
    if draw(st.booleans()):
        members.append(("enabled", draw(st.sampled_from(["true", "false"]))))
    if draw(st.booleans()):
        members.append(("disabledReason", json.dumps(draw(st.text(max_size=5)))))
    members = draw(st.permutations(members))
    gaps = draw(st.lists(GAPS, min_size=4 * len(members) + 1, max_size=4 * len(members) + 1))
    return members, gaps


def text_of(members: list[tuple[str, str]], gaps: list[str], comma: bool, around: str) -> str:
    """A registry that holds the entry between two others of the same keys."""
    rest = iter(gaps)
    parts = [f'{next(rest)}"{key}"{next(rest)}:{next(rest)}{value}{next(rest)}' for key, value in members]
    body = ",".join(parts) + ("," if parts and comma else "") + next(rest)
    other = '{"enabled": true, "command": "./o"}'
    return f'{around}{{"schemaVersion": 2,\n"sidecars": {{"a": {other}, "it": {{{body}}}, "z": {other}}},}}'


@given(entries(), st.booleans(), st.sampled_from(["", "// top\r\n", "/* a */ "]), st.booleans(), REASONS)
@settings(max_examples=examples(600), deadline=None)
def test_only_the_switch_changes(
    entry: tuple[list[tuple[str, str]], list[str]], comma: bool, around: str, enabled: bool, reason: str
) -> None:
    members, gaps = entry
    text = text_of(members, gaps, comma, around)
    before: dict[str, Any] = pyjson5.decode(text)
    raw = before["sidecars"]["it"]
    said = "" if enabled else reason
    made = switch_in_text(text, "it", enabled, reason, "file")
    if raw.get("enabled", True) is enabled and raw.get("disabledReason", "") == said:
        assert "already" in made.why_not
        return
    assert made.why_not == ""
    wanted = {**raw, "enabled": enabled}
    if said or "disabledReason" in raw:
        wanted["disabledReason"] = said
    assert pyjson5.decode(made.text) == {**before, "sidecars": {**before["sidecars"], "it": wanted}}
    # values that were there, replaced by hand; what is left over is one insertion of the missing members
    fresh = {"enabled": json.dumps(enabled), "disabledReason": spelled(said)}
    same = [(key, fresh.get(key, value)) for key, value in members]
    replaced = text_of(same, gaps, comma, around)
    if made.text != replaced:
        assert any(ADDED.fullmatch(piece) for piece in inserted(replaced, made.text))


def spelled(reason: str) -> str:
    visible = json.dumps(reason, ensure_ascii=False)
    return visible if visible.isprintable() and safe_text(visible) == visible else json.dumps(reason)


def inserted(old: str, new: str) -> list[str]:
    """Every piece of `new` without which it is `old`; none where more than one place differs."""
    size = len(new) - len(old)
    starts = range(len(old) + 1) if size > 0 else ()
    return [new[at : at + size] for at in starts if new[:at] + new[at + size :] == old]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"sidecars": {"it": {"command": "x"}}}',
            '{"sidecars": {"it": {"enabled": false, "command": "x"}}}',
        ),
        ('{"sidecars": {"it": {}}}', '{"sidecars": {"it": {"enabled": false}}}'),
        (
            '{"sidecars": {\r\n  "it": { // mine\r\n    // what runs\r\n    "command": "x",\r\n  },\r\n}}',
            '{"sidecars": {\r\n  "it": { // mine\r\n    "enabled": false,\r\n    // what runs\r\n    "command": "x",\r\n  },\r\n}}',  # noqa: E501 - one text
        ),
        ("{sidecars: {it: {enabled: true}}}", "{sidecars: {it: {enabled: false}}}"),
    ],
)
def test_where_a_missing_member_goes(text: str, expected: str) -> None:
    assert switch_in_text(text, "it", False, "", "file").text == expected


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{"sidecars": {\n  "it": {"command" "x"}}}', "file:2:20"),
        ('{"sidecars": {\n  "it": 3}}', "file:2:9"),
        ('{"sidecars": {"other": {}}}', "file:1:1"),
        ("[]", "file:1:1"),
    ],
)
def test_what_cannot_be_edited_is_refused_with_its_place(text: str, where: str) -> None:
    made = switch_in_text(text, "it", False, "no", "file")
    assert made.text == ""
    assert where in made.why_not


def test_a_reason_that_is_too_long_is_refused() -> None:
    assert "1000" in switch_in_text('{"sidecars": {"it": {}}}', "it", False, "x" * 1001, "f").why_not


@pytest.mark.parametrize("legacy", [False, True])
def test_the_file_that_declares_the_entry_is_edited(tmp_path: Path, legacy: bool) -> None:
    places = find_paths(str(tmp_path / "p"), None, {"HOME": str(tmp_path)}, tmp_path)
    file = tmp_path / "p" / (f".flyflor/{REGISTRY_FILE}" if legacy else REGISTRY_FILE)
    own = tmp_path / ".config" / "flytui" / REGISTRY_FILE
    for path in (file, own):
        path.parent.mkdir(parents=True)
        path.write_bytes(b'\xef\xbb\xbf{"schemaVersion": 2,\r\n"sidecars": {"it": {"command": "x"}}}')
        path.chmod(0o640)
    assert switch_entry(places, Source.PROJECT, "it", False, "later", "f").why_not == ""
    assert b'"disabledReason": "later"' in file.read_bytes()
    assert file.read_bytes().startswith(b'\xef\xbb\xbf{"schemaVersion": 2,\r\n')
    assert file.stat().st_mode & 0o777 == 0o640
    assert b"later" not in own.read_bytes()
    assert switch_entry(places, Source.USER, "it", False, "mine", "f").why_not == ""
    assert b"mine" in own.read_bytes()
    assert [path.name for path in file.parent.iterdir()] == [file.name]


# --- the starter


def test_the_starter_is_whole_and_safe(tmp_path: Path) -> None:
    found = starter_entries(frozenset(KNOWN))
    of_the_web = {"web.search", "web.pages", "web.files"}
    named = tuple(f"${{input.{name}}}/.." for name in ("output", "outputDir", "outputPath"))
    writing = {
        "utility.files": named,
        "utility.tasks": (".",),
        "media.speech": ("${input.path}/..",),
        "computer.native": ("${input.path}/..",),
        "browser.cdp": ("screenshots",),
        "web.files": ("downloads",),
    }
    assert {entry.id for entry in found} == {
        "utility.local",
        "utility.files",
        "utility.code",
        "utility.tasks",
        "media.local",
        "media.speech",
        "media.provider",
        "computer.native",
        "browser.cdp",
        "mock.echo",
        *of_the_web,
    }
    for entry in found:
        assert entry.problems == ()
        assert entry.permissions.network is (entry.id in {"browser.cdp", *of_the_web})
        assert entry.permissions.write == writing.get(entry.id, ())
        assert entry.permissions.secrets == ()
        assert entry.enabled is not entry.permissions.desktop
