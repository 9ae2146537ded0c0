"""Manifests as entries: what a good one becomes, and each rule that a bad one breaks, with its place."""

from __future__ import annotations

import msgspec

from flycore.model.enums import Kind, Source
from flycore.model.tool_exec import HttpExec, OutputFormat, PythonExec, SecretType
from flycore.registry.manifest import parse_manifest
from kits.tables import each_row

GOOD = """\
name: search
description: Searches.
kind: http
version: 2
tags: [web]
inputs:
  schema:
    type: object
    properties:
      q: {type: string}
exec:
  http:
    url: https://api.example.com/${q}
    headers: {X-Key: "${API_KEY}"}
    response: {json_path: a.0, fields: [{name: t, path: x.y}]}
    timeout_ms: 5000
permissions:
  network: true
  secrets:
    API_KEY: {type: string, required: true}
    LIMIT_KEY: {type: integer, required: false}
approval: {required: true, reason: it costs}
"""


def rules(text: str, folder: str = "search", reserved: str = "") -> dict[str, tuple[int, int]]:
    entry = parse_manifest(
        text, "tools/manifests/search/tool.yml", folder=folder, is_reserved=lambda name: name == reserved
    )
    return {
        problem.rule: (problem.position.line, problem.position.column)
        for problem in entry.problems
        if problem.position is not None
    }


def test_a_good_manifest_becomes_an_entry() -> None:
    entry = parse_manifest(GOOD, "tools/manifests/search/tool.yml", folder="search", file="/p/tool.yml")
    assert entry.problems == ()
    assert (entry.id, entry.source, entry.kind) == ("search", Source.MANIFEST, Kind.HTTP)
    assert (entry.timeout_ms, entry.url, entry.file) == (5000, "https://api.example.com/${q}", "/p/tool.yml")
    assert isinstance(entry.exec, HttpExec)
    assert (entry.exec.json_path, entry.exec.fields[0].path) == ("a.0", "x.y")
    assert entry.permissions.secrets == ("API_KEY", "LIMIT_KEY")
    assert entry.permissions.optional_secrets == ("LIMIT_KEY",)
    assert entry.permissions.secret_types == (("LIMIT_KEY", SecretType.INTEGER),)
    assert entry.tools[0].spec is not None
    assert entry.tools[0].spec["version"] == 2
    assert entry.digest
    assert msgspec.json.decode(msgspec.json.encode(entry), type=type(entry)) == entry


def test_comments_and_order_are_no_change_and_a_value_is() -> None:
    def digest(text: str) -> str:
        return parse_manifest(text, "f", folder="search").digest

    moved = GOOD.replace("version: 2\n", "").replace("kind: http\n", "kind: http # why\nversion: 2\n")
    assert digest(moved) == digest(GOOD)
    assert digest(GOOD.replace("version: 2", "version: 3")) != digest(GOOD)
    assert digest(GOOD.replace("it costs", "it costs more")) != digest(GOOD)


@each_row(
    ("change", "rule", "place"),
    [
        (("name: search", "name: other"), "name-folder", (1, 1)),
        (("kind: http", "kind: NO"), "schema", (3, 1)),
        (("description: Searches.", "description: 3"), "schema", (2, 1)),
        (("version: 2", "versoin: 2"), "unknown-key", (4, 1)),
        (("${q}", "${other}"), "placeholder-unknown", (13, 5)),
        (("${q}", "${q"), "placeholder-form", (13, 5)),
        (("https://api", "https://me@api"), "url", (13, 5)),
        (("${q}", "#${q}"), "url", (13, 5)),
        (("X-Key:", "Host:"), "header", (14, 15)),
        (("a.0", "a..0"), "json-path", (15, 16)),
        (("name: t, path", "name: '${q}', path"), "placeholder-place", (15, 42)),
        (("network: true", "network: false"), "network-undeclared", (17, 1)),
        (("  secrets:", "  fs: {read: [/etc]}\n  secrets:"), "absolute-path", (19, 15)),
        (("  secrets:", "  fs: {read: [a/../../b]}\n  secrets:"), "outside-root", (19, 15)),
        (("API_KEY: {type", "LD_PRELOAD: {type"), "loader-name", (20, 5)),
        (("API_KEY: {type", "FLYTUI_X: {type"), "reserved-name", (20, 5)),
        (("{type: integer,", "{type: date,"), "schema", (21, 17)),
        (("required: true, reason: it costs", "required: true"), "approval-reason", (22, 1)),
        (("q: {type: string}", "API_KEY: {type: string}"), "placeholder-ambiguous", (1, 1)),
        (("q: {type: string}", "q: {type: strin}"), "tool-schema", (7, 3)),
        (("    url:", "    body: 'a ${q}'\n    url:"), "body-text", (13, 5)),
        (("    url:", "    body: {a: 1}\n    url:"), "body-of-get", (13, 5)),
        (("  http:", "  command: {entrypoint: a}\n  http:"), "exec-kind", (11, 1)),
        (("tags: [web]", "tags: &a [web]"), "yaml-alias", (5, 7)),
    ],
)
def test_each_fault_has_its_rule_and_place(
    change: tuple[str, str], rule: str, place: tuple[int, int]
) -> None:
    assert change[0] in GOOD
    found = rules(GOOD.replace(*change))
    assert rule in found
    assert found[rule] == place


COMMAND = """\
name: run
description: Runs.
kind: command
exec:
  command:
    entrypoint: scripts/run.sh
    args: ["${path}", 3, true]
    cwd: work/./
inputs: {schema: {type: object, properties: {path: {type: string}}}}
"""


def test_a_command_is_written_as_the_registry_writes_one() -> None:
    entry = parse_manifest(COMMAND, "f", folder="run")
    assert entry.problems == ()
    assert (entry.command, entry.args, entry.working_dir) == (
        "./scripts/run.sh",
        ("${path}", "3", "true"),
        "work",
    )


@each_row(
    ("change", "rule"),
    [
        (("scripts/run.sh", "/bin/sh"), "absolute-path"),
        (("scripts/run.sh", "~/run.sh"), "absolute-path"),
        (("scripts/run.sh", "../run.sh"), "outside-root"),
        (("scripts/run.sh", "'${path}'"), "placeholder-place"),
        (("work/./", "/tmp"), "absolute-path"),
        (("work/./", "work/../.."), "outside-root"),
    ],
)
def test_a_command_stays_in_the_project(change: tuple[str, str], rule: str) -> None:
    assert rule in rules(COMMAND.replace(*change), folder="run")


def test_a_secret_on_the_command_line_is_a_warning() -> None:
    text = COMMAND.replace("${path}", "${A_KEY}") + "permissions: {secrets: {A_KEY: }}\n"
    entry = parse_manifest(text, "f", folder="run")
    assert [problem.rule for problem in entry.problems] == ["secret-in-argument"]
    assert entry.valid


def test_a_function_has_the_format_of_its_output_unless_it_says_another() -> None:
    text = "name: f\ndescription: F.\nkind: python\noutputs: {format: text}\n"
    text += "exec:\n  python: {module: a.b, function: c}\n"
    entry = parse_manifest(text, "f", folder="f")
    assert isinstance(entry.exec, PythonExec)
    assert entry.exec.format is OutputFormat.TEXT
    assert parse_manifest(text.replace("a.b", "a b"), "f", folder="f").problems[0].rule == "schema"


def test_every_fault_is_reported_at_once() -> None:
    text = (
        GOOD.replace("description: Searches.", "description: 3")
        .replace("${q}", "${x}")
        .replace("network: true", "network: soon")
    )
    assert {"schema", "placeholder-unknown"} <= rules(text).keys()
    assert "reserved-name" in rules(GOOD, reserved="search")


@each_row("text", ["", "[]", "text", "- a", "a: [", "name: search", "\x00"])
def test_what_is_no_manifest_is_an_invalid_entry_that_keeps_its_name(text: str) -> None:
    entry = parse_manifest(text, "f", folder="search")
    assert not entry.valid
    assert entry.tool_names == ("search",)
    assert entry.digest == ""
