"""`flytui sidecar check` as a person types it, on the programs of the documentation and on our own."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from flysidecars.main import MODULES
from flytui.cli.commands.schema import schema_of
from kits.command_line import Desk
from kits.terminals import needs

PAGE = Path(__file__).parents[3] / "docs" / "writing-sidecars.md"
PROGRAMS = dict(re.findall(r"^```\w+ file=(\S+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))
LINE = re.compile(r"^(ok|warn|fail)\b", re.MULTILINE)
INPUTS: dict[str, dict[str, Any]] = {
    "lines.py": {"path": "lines.py"},
    "recall.py": {"text": "a"},
    "tally.mjs": {"text": "one two\nthree"},
    "upper.py": {"text": "a"},
}
TOOLS = {"lines.py": "text.lines"}
STAY = ("lines.py", "recall.py", "tally.mjs", "uptime.sh")


@pytest.fixture
def program(desk: Desk) -> Any:
    """Write a program of the page into the root; the command line that names it."""

    def write(name: str, text: str | None = None) -> str:
        if name.endswith(".mjs"):
            needs("node")
        file = desk.root / name
        file.write_text(PROGRAMS[name] if text is None else text)
        file.chmod(0o755)
        return str(file)

    return write


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - {"repeat.py", "words.mjs"}))
def test_the_programs_of_the_page_keep_the_contract(desk: Desk, program: Any, name: str) -> None:
    words = ["--input", json.dumps(INPUTS.get(name, {})), "--tool", TOOLS.get(name, "")]
    words += ["--persistent"] if name in STAY else []
    done = desk.run("sidecar", "check", program(name), *words)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("ok    answer: success"), done.stdout
    assert len(LINE.findall(done.stdout)) == (27 if name in STAY else 21)


def test_the_page_s_commands_work_as_they_stand(desk: Desk, program: Any) -> None:
    [text] = re.findall(r"^```sh run\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for line in text.splitlines():
        words = shlex.split(line)
        program(Path(words[3]).name)
        done = desk.run(*words[1:])
        assert (words[0], done.returncode) == ("flytui", 0), done.stdout
        assert done.stdout.startswith("ok    answer: success"), done.stdout


@pytest.mark.parametrize("name", sorted(MODULES))
def test_our_own_keep_the_contract(desk: Desk, name: str) -> None:
    found = desk.document("sidecar", "check", "flytui-sidecar", name, "--persistent")
    assert [check for check in found["checks"] if check["state"] == "fail"] == []
    assert len(found["checks"]) == 27


def test_a_program_that_breaks_it_is_told_how(desk: Desk, program: Any) -> None:
    done = desk.run("sidecar", "check", program("bad.sh", "#!/bin/sh\ncat > /dev/null\necho hello\n"))
    assert done.returncode == 1
    assert re.search(r"^fail  answer: invalid-output.*\n      → ", done.stdout, re.MULTILINE)
    assert "level none" in done.stderr


def test_the_document_keeps_to_its_schema(desk: Desk, program: Any) -> None:
    done = desk.run("sidecar", "check", program("bad.sh", "#!/nowhere/at/all\n"), "--json")
    document = json.loads(done.stdout)
    jsonschema.validate(document, schema_of("sidecar-check"), jsonschema.Draft202012Validator)
    assert (done.returncode, document["level"], document["checks"][0]["state"]) == (1, "none", "fail")
    assert "interpreter" in document["checks"][0]["message"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("no-such-program-anywhere",), "there is no program"),
        (("./nowhere",), "there is no program"),
        (("sh", "--input", "{"), "--input"),
        (("sh", "--input", "[]"), "not a JSON object"),
        ((), "Missing argument"),
    ],
)
def test_what_is_no_question_is_usage(desk: Desk, words: tuple[str, ...], said: str) -> None:
    done = desk.run("sidecar", "check", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_options_that_are_the_program_s_reach_it(desk: Desk, program: Any) -> None:
    text = '#!/bin/sh\ncat > /dev/null\nprintf \'{"ok": true, "given": "%s"}\' "$*" | tee -a given\n'
    done = desk.run("sidecar", "check", program("args.sh", text), "--mode", "-x", "--", "--json")
    assert done.returncode == 0, done.stdout
    assert '"given": "--mode -x --json"' in (desk.root / "given").read_text()
