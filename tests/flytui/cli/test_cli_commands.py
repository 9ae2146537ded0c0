"""The command line as a script sees it: documents, prose, exit codes. Real processes throughout."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import jsonschema
import pytest

from flycore.catalog.builtin_tools import builtin_names
from flytui.cli.commands.schema import NAMES, schema_of
from kits.command_line import ALLOW_ECHO, REGISTRY, Desk
from kits.tables import each_row


def rows(stdout: str) -> dict[str, str]:
    """Lines of a plain table by their second column."""
    return {line.split()[2]: line for line in stdout.splitlines()[1:] if len(line.split()) > 2}


def test_without_a_terminal_the_catalog_is_printed_and_says_what_waits(desk: Desk) -> None:
    done = desk.run()
    assert done.returncode == 0
    first, *table = done.stdout.splitlines()
    assert first == "3 entries wait for trust: flytui trust shows what they would run"
    listed = rows("\n".join(table))
    assert "folder-untrusted" in listed["file.hash"]
    assert "flytui trust" in listed["file.hash"]
    assert "disabled: not today" in listed["web.search"]
    assert "command-not-found" in listed["vision.ocr"]
    assert "not-configured" in listed["browser.open"]


def test_every_line_that_is_not_well_has_a_remedy(settled: Desk) -> None:
    catalog = settled.document("catalog")
    assert catalog["schema"] == "flytui.catalog/1"
    not_well = [item for item in catalog["capabilities"] if item["effective"] != "available"]
    assert len(not_well) > 10
    assert all(reason["remedy"] for item in not_well for reason in item["reasons"])
    assert all(item["reasons"] for item in not_well)


def test_filter_keeps_what_contains_every_word(settled: Desk) -> None:
    found = settled.document("catalog", "--filter", "HASH", "--filter", "available")
    assert [item["name"] for item in found["capabilities"]] == ["file.hash"]
    plain = settled.run("catalog", "--filter", "disabled web")
    assert "web.search" in plain.stdout
    assert "file.hash" not in plain.stdout


def test_filter_speaks_the_console_s_language(settled: Desk) -> None:
    for query, names in (
        ("state:avail !tool:x !sidecar:try", None),
        ("state:avail !sidecar:try !source:builtin", ["file.hash"]),
        ("sidecar:try,utility risk:low,med", ["file.hash", "try.echo"]),
        ("policy:allow sidecar:try,utility", ["file.hash", "try.echo"]),
        ("policy:lease", []),
        ("flhsh", ["file.hash"]),
    ):
        done = settled.run("catalog", "--json", "--filter", query)
        if names is None:
            assert (done.returncode, done.stdout) == (2, "")
            assert "no key tool: there are state" in done.stderr
            continue
        document = json.loads(done.stdout)
        assert sorted(item["name"] for item in document["capabilities"]) == names, query
        assert {item["id"] for item in document["sidecars"]} == {
            item["sidecar"] for item in document["capabilities"]
        }
    assert "nothing matches" in settled.run("catalog", "--filter", "sidecar:nobody").stderr


@pytest.mark.parametrize("words", [("--json", "catalog"), ("catalog", "--json"), ("--json",)])
def test_common_options_stand_before_or_after_the_command(settled: Desk, words: tuple[str, ...]) -> None:
    assert json.loads(settled.run(*words).stdout)["appRoot"] == str(settled.root)


@each_row("name", NAMES)
def test_schemas_are_schemas(name: str) -> None:
    schema = schema_of(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_schemas_are_written_for_an_editor(desk: Desk) -> None:
    document = desk.document("schema", "--write")
    jsonschema.validate(document, schema_of("schema"), jsonschema.Draft202012Validator)
    assert "tools/schemas/manifest.schema.json" in document["written"]
    written = json.loads((desk.root / "tools" / "schemas" / "policy.schema.json").read_text())
    assert written == schema_of("policy") == json.loads(desk.run("schema", "policy").stdout)
    assert desk.document("schema", "--write")["written"] == []
    (desk.root / "tools" / "schemas" / "policy.schema.json").write_text("mine")
    done = desk.run("schema", "--write")
    assert (done.returncode, done.stdout) == (5, "")
    assert "another file has this name" in done.stderr
    for words in ((), ("policy", "--write"), ("nope",)):
        assert desk.run("schema", *words).returncode == 2


@each_row(
    "words",
    [
        ("inspect", "file.hash"),
        ("inspect", "media.local"),
        ("inspect", "browser.open"),
        ("why", "vision.ocr"),
        ("doctor",),
        ("preflight", "file.hash", "nope"),
        ("tools",),
        ("tools", "list"),
        ("trust",),
        ("approvals",),
        ("approvals", "show", "nope"),
        ("status",),
        ("audit", "tail"),
        ("audit", "verify"),
        ("catalog",),
    ],
)
def test_documents_keep_to_their_schemas(settled: Desk, words: tuple[str, ...]) -> None:
    document = settled.document(*words)
    jsonschema.validate(document, schema_of(words[0]), jsonschema.Draft202012Validator)
    assert document["schema"] == f"flytui.{words[0]}/1"


def test_schema_prints_the_schema(settled: Desk) -> None:
    assert json.loads(settled.run("schema", "status").stdout) == json.loads(json.dumps(schema_of("status")))


def test_results_keep_to_their_schema(settled: Desk) -> None:
    for words in (("try.echo", "message=hi"), ("try.echo",), ("nope",), ("file.hash", "path=nowhere")):
        jsonschema.validate(settled.document("call", *words), schema_of("result"))


CALLS: list[tuple[tuple[str, ...], bytes, int, str, str]] = [
    (("try.echo", '{"message": "hi"}'), b"", 0, "success", ""),
    (("try.echo", "message=7"), b"", 0, "success", ""),
    (("try.echo", "--input", '{"message": "hi"}'), b"", 0, "success", ""),
    (("try.echo", "-"), b'{"message": "hi"}', 0, "success", ""),
    (("try.echo", "message=hi", "fail=failed"), b"", 1, "failed", "failed"),
    (("try.echo", "message=hi", "fail=exit"), b"", 1, "failed", "exit"),
    (("try.echo", "message=hi", "fail=garbage"), b"", 1, "failed", "invalid-output"),
    (("try.echo", "message=hi", "fail=unavailable"), b"", 3, "unavailable", "tool-unavailable"),
    (("try.echo", "message=hi", "delayMs=60000", "--timeout-ms", "300"), b"", 6, "failed", "timeout"),
    (("try.echo",), b"", 2, "failed", "invalid-input"),
    (("try.ech", "message=hi"), b"", 3, "failed", "not-found"),
    (("vision.ocr", "path=x"), b"", 3, "unavailable", "command-not-found"),
    (("web.search", "query=x"), b"", 3, "unavailable", "disabled"),
]


@each_row(("words", "given", "code", "status", "error"), CALLS, ids=lambda value: str(value)[:40])
def test_exit_codes_say_how_a_call_ended(
    settled: Desk, words: tuple[str, ...], given: bytes, code: int, status: str, error: str
) -> None:
    done = settled.run("call", *words, "--json", given=given)
    result = json.loads(done.stdout)
    assert (done.returncode, result["status"]) == (code, status), done.stdout
    assert (result["error"] or {}).get("code", "") == error


def test_a_value_of_a_string_field_stays_text(settled: Desk) -> None:
    assert settled.document("call", "try.echo", "message=7")["output"]["echo"] == {"message": "7"}


def test_what_needs_a_person_is_denied_without_one(desk: Desk) -> None:
    desk.trust()
    registry = json.loads(json.dumps(REGISTRY))
    registry["sidecars"]["try.local"]["tools"][0]["risk"] = "high"
    desk.write(registry)
    desk.trust()
    done = desk.run("call", "try.echo", "message=hi")
    assert done.returncode == 4
    assert done.stdout == ""
    assert "no-approver" in done.stderr
    assert "flytui" in done.stderr.split("→")[1]


def test_output_is_for_people_and_safe(settled: Desk) -> None:
    done = settled.run("call", "try.echo", json.dumps({"message": "grün \x1b[2J \u202e [/nope]"}))
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    assert "⟦U+202E⟧" in done.stdout
    assert "grün" in done.stdout
    assert "[/nope]" in done.stdout
    assert done.stderr.startswith("success: try.echo by try.local")


USAGE: list[tuple[tuple[str, ...], str]] = [
    (("nope",), "no command nope"),
    (("catalgo",), "Did you mean catalog?"),
    (("call",), "Missing argument"),
    (("call", "try.echo", "x"), "neither a JSON object nor key=value"),
    (("call", "try.echo", "--timeout-ms", "0"), "timeout-ms"),
    (("schema", "nope"), "nope"),
    (("trust", "--revoke", "--print-digest"), "cannot be combined"),
    (("demo",), "terminal"),
    (("why",), "Missing argument"),
    (("audit", "tail", "-n", "0"), "0"),
    (("call", "a\x1b[2Jb", "\x1b[31m"), "x1b"),
    (("\x1b[2J",), "⟦U+001B⟧"),
]


@each_row(("words", "said"), USAGE, ids=repr)
def test_usage_errors_are_sentences(settled: Desk, words: tuple[str, ...], said: str) -> None:
    done = settled.run(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert "\x1b" not in done.stderr
    assert "Traceback" not in done.stderr


def test_unknown_names_get_the_nearest_ones(settled: Desk) -> None:
    for words in (("why", "file.hsh"), ("inspect", "file.hsh")):
        done = settled.run(*words)
        assert done.returncode == 3
        assert "did you mean file.hash" in done.stderr
    assert "utility.local" in settled.run("inspect", "utility.locl").stderr


def test_preflight_is_zero_only_when_all_is_available(settled: Desk) -> None:
    assert settled.run("preflight", "file.hash", "try.echo").returncode == 0
    done = settled.run("preflight", "file.hash", "vision.ocr", "nope")
    assert done.returncode == 3
    assert "command-not-found" in done.stdout
    assert "no such tool" in done.stdout


def test_tools_are_those_an_agent_is_shown(settled: Desk) -> None:
    names = [tool["name"] for tool in settled.document("tools")["tools"]]
    assert sorted(set(names) - builtin_names()) == ["file.hash", "try.echo"]
    # The others start programs, which not every machine can confine.
    assert {name for name in builtin_names() if name.startswith("workspace.")} <= set(names)
    assert settled.run("--list-tools").stdout == settled.run("tools", "list").stdout


def test_commands_have_the_names_of_other_systems_too(settled: Desk) -> None:
    assert settled.document("tool", "list") == settled.document("tools", "list")
    done = settled.run(
        "tool", "invoke", "file.hash", "--input", '{"path": "tools/external.tools.jsonc"}', "--json"
    )
    assert json.loads(done.stdout)["status"] == "success"
    assert "file.hash" in settled.run("tool", "status").stdout
    assert "  tool " not in settled.run("--help").stdout
    assert settled.run("tool", "start", "x").returncode == 2


def test_why_climbs_the_ladder(settled: Desk) -> None:
    done = settled.run("why", "vision.ocr")
    assert done.returncode == 0
    for word in ("discovery", "path", "unresolved", "command-not-found", "not checked", "unavailable"):
        assert word in done.stdout


def test_inspect_shows_schema_and_permissions(settled: Desk) -> None:
    done = settled.run("inspect", "file.hash")
    assert '"algorithm"' in done.stdout
    assert "flytui-sidecar utility.local" in done.stdout


def test_version(settled: Desk) -> None:
    assert settled.run("--version").stdout.startswith("flytui ")


def test_doctor_is_content_with_a_well_written_root(settled: Desk) -> None:
    done = settled.run("doctor")
    assert done.returncode == 0, done.stdout
    assert "sidecar utility.local: available" in done.stdout
    assert "declared permissions: " in done.stdout


BROKEN: dict[str, Any] = {
    "broken.entry": {"command": 7, "tools": ["web.fetch"]},
    "absolute.path": {"command": "/bin/true", "tools": ["web.download"]},
    "old.core": {"command": "flytui-sidecar", "compatibleCore": "<0.0.1", "tools": ["audio.speak"]},
    "a.builtin": {"command": "flytui-sidecar", "tools": ["workspace.read"]},
    "double.claim": {"command": "flytui-sidecar", "args": ["utility.local"], "tools": ["file.hash"]},
    "no.exec": {"kind": "http", "tools": ["lsp.symbols"]},
}
EXPECTED = {
    "broken.entry": "manifest-invalid",
    "absolute.path": "outside-root-denied",
    "old.core": "core-incompatible",
    "a.builtin": "manifest-invalid",
    "no.exec": "manifest-invalid",
    "media.local": "command-not-found",
}


def test_every_broken_entry_has_its_own_reason_and_the_others_work(desk: Desk) -> None:
    desk.write({**REGISTRY, "sidecars": {**REGISTRY["sidecars"], **BROKEN}})
    desk.allow(ALLOW_ECHO)
    desk.trust()
    assert desk.run("call", "try.echo", "message=hi").returncode == 0
    for sidecar, code in EXPECTED.items():
        seen = desk.document("inspect", sidecar)["sidecar"]["stability"]
        assert code in [reason["code"] for reason in seen["reasons"]], (sidecar, seen["reasons"])
        assert all(reason["remedy"] for reason in seen["reasons"])
    listed = desk.run("catalog").stdout
    assert all(sidecar in listed for sidecar in BROKEN)
    done = desk.run("doctor")
    assert done.returncode == 5
    for sidecar in (*EXPECTED, "double.claim"):
        assert f"sidecar {sidecar}:" in done.stdout
    assert "external.tools.jsonc:1:" in done.stdout


@pytest.mark.parametrize("text", ["{", '{"sidecars": ', "\x00", "[]", "nonsense \x1b[2J"])
def test_a_registry_that_does_not_parse_is_said_loudly(desk: Desk, text: str) -> None:
    desk.write(text)
    done = desk.run("catalog")
    assert done.returncode == 0
    assert "error: tools/external.tools.jsonc:" in done.stderr
    assert "\x1b" not in done.stderr
    assert desk.run("doctor").returncode == 5


def test_an_empty_folder_teaches(desk: Desk) -> None:
    (desk.root / "tools" / "external.tools.jsonc").unlink()
    done = desk.run("catalog", "--filter", "file.hash")
    assert "not-configured" in done.stdout
    assert "→" in done.stdout


def test_the_log_is_read_shown_and_verified(trusted: Desk) -> None:
    call = trusted.document("call", "try.echo", "message=hi")
    assert len(trusted.document("audit", "tail", "-n", "2")["lines"]) == 2
    lines = trusted.document("audit", "tail", "-n", "20")["lines"]  # a probe's answer may stand between
    events = [line["event"] for line in lines if line["event"].startswith("TOOL_")]
    assert events[-2:] == ["TOOL_STARTED", "TOOL_EXECUTED"]
    shown = trusted.document("audit", "show", call["callId"])["lines"]
    assert [line["event"] for line in shown] == ["TOOL_CALLED", "TOOL_STARTED", "TOOL_EXECUTED"]
    assert trusted.run("audit", "show", "nope").returncode == 3
    assert "TOOL_EXECUTED name=try.echo" in trusted.run("audit", "tail").stdout
    assert trusted.run("audit", "verify").returncode == 0
    (log,) = trusted.home.glob("state/flytui/roots/*/audit/*.jsonl")
    log.write_bytes(log.read_bytes().replace(b"try.echo", b"try.evil", 1))
    done = trusted.run("audit", "verify")
    assert done.returncode == 1
    assert f"{log}:" in done.stdout


def test_a_reader_that_leaves_is_no_traceback(settled: Desk) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = settled.argv("schema", "registry")
        done = subprocess.run(
            command, env=settled.environ, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")
