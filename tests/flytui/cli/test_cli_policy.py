"""`flytui policy` as a person and a script meet it. Real processes throughout."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from flytui.cli.commands.schema import schema_of
from kits.command_line import Desk
from kits.tables import each_row

HI = {"properties": {"message": {"const": "hi"}}, "required": ["message"]}
ALLOW_HI = {"tool": "try.echo", "decision": "allow", "because": "a greeting", "when": HI}
RULES: list[dict[str, Any]] = [
    ALLOW_HI,
    {"tool": "file.*", "decision": "deny", "because": "not codex", "caller": "codex"},
    {"tool": "file.hash", "decision": "deny", "because": "over", "expires": "2020-01-01T00:00:00Z"},
]


@pytest.fixture
def ruled(desk: Desk) -> Desk:
    desk.allow({"schemaVersion": 1, "rules": RULES})
    return desk


def user_file(desk: Desk) -> Path:
    return desk.home / "config" / "flytui" / "policy.jsonc"


def write(path: Path, *rules: object) -> str:
    path.write_text(json.dumps({"schemaVersion": 1, "rules": rules}, indent=1))
    return str(path)


# --- check


def test_check_says_which_files_and_what_has_expired(ruled: Desk) -> None:
    done = ruled.run("policy", "check")
    assert done.returncode == 0
    assert f"user     {user_file(ruled)}: 3 rules in force" in done.stdout
    assert "project  " in done.stdout
    assert "has expired" in done.stdout


def test_check_names_line_and_column_and_exits_5(ruled: Desk) -> None:
    write(user_file(ruled), {**ALLOW_HI, "tool": "try_echo"}, {"tool": "web.*", "decision": "nope"})
    done = ruled.run("policy", "check")
    assert done.returncode == 5
    assert f"{user_file(ruled)}:5:12: 'try_echo' matches no known tool" in done.stdout
    assert "did you mean 'try.echo'?" in done.stdout
    assert "error    " in done.stdout


def test_check_of_a_file_that_does_not_parse_shows_the_place(ruled: Desk) -> None:
    user_file(ruled).write_text('{"schemaVersion": 1,\n "rules": [}')
    done = ruled.run("policy", "check")
    assert done.returncode == 5
    assert f"{user_file(ruled)}:2:" in done.stdout
    assert "does not parse" in done.stdout


@pytest.mark.parametrize(("place", "ignored"), [("root/tools/policy.jsonc", True), ("draft.jsonc", False)])
def test_check_file_reads_it_as_what_it_is(ruled: Desk, place: str, ignored: bool) -> None:
    path = write(ruled.root.parent / place, ALLOW_HI)
    found = ruled.document("policy", "check", path)
    assert [layer["layer"] for layer in found["layers"]] == ["project" if ignored else "user"]
    assert found["layers"][0]["rules"] == (0 if ignored else 1)
    assert bool(found["diagnostics"]) is ignored


def test_check_of_no_file_is_wrong_use(ruled: Desk) -> None:
    assert ruled.run("policy", "check", "nowhere.jsonc").returncode == 2


def test_control_characters_of_a_policy_are_not_printed(ruled: Desk) -> None:
    write(user_file(ruled), {"tool": "\x1b]0;x\x07", "decision": "deny", "because": "\u202e", "x\x9b": 1})
    for words in (("policy", "check"), ("policy", "explain", "try.echo")):
        done = ruled.run(*words)
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(done.stdout + done.stderr)


# --- explain


@each_row(
    ("words", "decision", "counts", "used"),
    [
        (("try.echo", "message=hi"), "allow", ["yes"], False),
        (("try.echo", '{"message": "hi"}'), "allow", ["yes"], False),
        (("try.echo", "message=no"), "ask", [], True),
        (("try.echo",), "ask", ["unknown"], True),
        (("file.hash", "path=x", "--caller", "codex"), "deny", ["yes", "expired"], False),
        (("file.hash", "path=x", "--caller", "/opt/codex"), "deny", ["yes", "expired"], False),
        (("file.hash", "path=x", "--caller", "claude"), "allow", ["expired"], True),
        (("file.hash", "path=x"), "ask", ["unknown", "expired"], False),
        (("browser.open",), None, [], False),
    ],
)
def test_explain(
    ruled: Desk, words: tuple[str, ...], decision: str | None, counts: list[str], used: bool
) -> None:
    found = ruled.document("policy", "explain", *words)
    assert found["decision"] == decision
    assert [rule["counts"] for rule in found["rules"]] == counts
    assert found["defaultUsed"] is used
    assert all(rule["where"].startswith(f"{user_file(ruled)}:") for rule in found["rules"])


def test_explain_in_words(ruled: Desk) -> None:
    said = ruled.run("policy", "explain", "try.echo", "message=hi").stdout
    assert said.startswith("try.echo: allow\nrisk medium; offered by try.local\n")
    assert f"{user_file(ruled)}:1" in said
    assert "a greeting (tool try.echo, input as in `when`)" in said
    assert "default (not used: a rule matches)\nask: no rule matches, and it is not known" in said
    said = ruled.run("policy", "explain", "agent.shell", '{"command": "git status"}').stdout
    assert said.startswith("agent.shell: ask\nrisk high; the agent itself does what is allowed here\n")


@each_row(
    ("words", "code", "said"),
    [
        (("try.echo", "mesage=hi"), 2, "required"),
        (("try.echo", "message"), 2, "neither a JSON object nor key=value"),
        (("try.echo", "-"), 2, "after the tool's name"),
        (("try.ehco",), 3, "did you mean try.echo"),
    ],
)
def test_explain_refuses_what_no_call_could_be(
    ruled: Desk, words: tuple[str, ...], code: int, said: str
) -> None:
    done = ruled.run("policy", "explain", *words)
    assert done.returncode == code
    assert said in done.stderr
    assert done.stdout == ""


def test_explain_has_a_document_for_a_tool_there_is_not(ruled: Desk) -> None:
    done = ruled.run("policy", "explain", "try.ehco", "--json")
    document = json.loads(done.stdout)
    jsonschema.validate(document, schema_of("policy-explain"), jsonschema.Draft202012Validator)
    assert (done.returncode, document["decision"]) == (3, None)
    assert "try.echo" in document["nearest"]


def test_explain_says_that_a_file_is_broken(ruled: Desk) -> None:
    user_file(ruled).write_text("{")
    done = ruled.run("policy", "explain", "file.hash", "path=x")
    assert done.returncode == 0
    assert done.stdout.startswith("file.hash: ask")
    assert "does not parse" in done.stderr


def test_explain_agrees_with_the_call(ruled: Desk) -> None:
    ruled.trust()
    for message, code in (("hi", 0), ("no", 4)):
        explained = ruled.document("policy", "explain", "try.echo", f"message={message}")
        assert (explained["decision"] == "allow") is (code == 0)
        assert ruled.run("call", "try.echo", f"message={message}").returncode == code


# --- replay


@pytest.fixture
def called(ruled: Desk) -> Desk:
    """With three calls in its log: allowed by a rule, not decided, allowed by default."""
    ruled.trust()
    ruled.run("call", "try.echo", "message=hi")
    ruled.run("call", "try.echo", '{"message": "no", "password": "correct horse"}')
    ruled.run("call", "file.hash", "path=tools/external.tools.jsonc")
    return ruled


def test_replay_of_what_is_in_force_and_of_drafts(called: Desk, tmp_path: Path) -> None:
    now = called.document("policy", "replay")
    assert [item["call"]["was"] for item in now["calls"]] == [
        "allowed by policy",
        "not decided (no-approver)",
        "allowed by policy",
    ]
    assert [item["decision"] for item in now["calls"]] == ["allow", "ask", "allow"]
    assert [len(item["matched"]) for item in now["calls"]] == [1, 0, 0]

    draft = write(tmp_path / "draft.jsonc", {"tool": "try.*", "decision": "deny", "because": "no more"})
    tried = called.document("policy", "replay", "--draft", draft)
    assert [item["decision"] for item in tried["calls"]] == ["deny", "deny", "allow"]
    assert [rule["where"] for item in tried["calls"] for rule in item["matched"]] == [f"{draft}:4"] * 2
    assert [bool(item["call"]["approximate"]) for item in tried["calls"]] == [False, True, False]

    said = called.run("policy", "replay", "--draft", draft).stdout
    assert "3 calls looked at; 2 matched by a rule; 2 decided otherwise" in said
    assert "1 approximate: the log does not have their whole input" in said
    assert "approximate: parts of the input were redacted" in said
    assert "deny (otherwise)" in said

    last = called.run("policy", "replay", "--draft", draft, "--last", "1").stdout
    assert last == "1 calls looked at; 0 matched by a rule; 0 decided otherwise\n"

    faulty = called.run("policy", "replay", "--draft", write(tmp_path / "bad.jsonc", 7))
    assert "a rule is an object" in faulty.stderr
    (tmp_path / "bad.jsonc").write_text("{")
    assert called.run("policy", "replay", "--draft", str(tmp_path / "bad.jsonc")).returncode == 5


def test_replay_of_an_empty_log(ruled: Desk) -> None:
    assert ruled.run("policy", "replay").stdout == (
        "0 calls looked at; 0 matched by a rule; 0 decided otherwise\n"
    )


@each_row(
    "words", [("check",), ("explain", "try.echo", "message=hi"), ("explain", "browser.open"), ("replay",)]
)
def test_policy_documents_keep_to_their_schemas(ruled: Desk, words: tuple[str, ...]) -> None:
    document = ruled.document("policy", *words)
    jsonschema.validate(document, schema_of(f"policy-{words[0]}"), jsonschema.Draft202012Validator)
    assert document["schema"] == f"flytui.policy-{words[0]}/1"


def test_schema_policy_is_the_file_s(ruled: Desk) -> None:
    schema = json.loads(ruled.run("schema", "policy").stdout)
    jsonschema.validate(json.loads(user_file(ruled).read_text()), schema, jsonschema.Draft202012Validator)


def test_the_page_s_rule_is_sound(ruled: Desk, tmp_path: Path) -> None:
    page = Path(__file__).parents[3] / "docs" / "policy.md"
    [text] = re.findall(r"```jsonc rules\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "page.jsonc").write_text(text)
    found = ruled.document("policy", "check", str(tmp_path / "page.jsonc"))
    assert (found["diagnostics"], found["layers"][0]["rules"]) == ([], 1)


def test_the_kernel_s_own_tools_are_explained(desk: Desk) -> None:
    read = desk.run("policy", "explain", "workspace.read", '{"path": "a"}')
    assert "workspace.read: allow" in read.stdout
    assert "a tool of flytui itself" in read.stdout
    assert "process.run: ask" in desk.run("policy", "explain", "process.run", '{"argv": ["ls"]}').stdout
