"""Every program in docs/writing-sidecars.md is run as it stands there."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = dict(BLOCK.findall((ROOT / "docs" / "writing-sidecars.md").read_text()))


@pytest.fixture
def ask(starter, require_programs):
    """Write the named program to the project and let it answer one request."""

    def run(name: str, tool: str, given: dict[str, object]):
        if name.endswith(".mjs"):
            require_programs("node")
        file = starter.project / name
        file.write_text(PROGRAMS[name])
        file.chmod(0o755)
        done = subprocess.run(
            [str(file)], input=starter.request(tool, given), capture_output=True, env=starter.env, check=False
        )
        assert done.stderr == b""
        return done.returncode, starter.read(done.stdout)

    return run


def test_the_programs_are_the_tested_ones() -> None:
    assert sorted(PROGRAMS) == [
        "lines.py",
        "load.sh",
        "recall.py",
        "repeat.py",
        "tally.mjs",
        "upper.py",
        "uptime.sh",
        "words.mjs",
    ]


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_probes(ask, name: str) -> None:
    code, answered = ask(name, "a.tool", {"probe": True})
    assert (code, answered.answer["ok"]) == (0, True)


def test_shell(ask) -> None:
    code, answered = ask("load.sh", "host.load", {})
    assert (code, answered.answer["ok"]) == (0, True)
    assert answered.answer["one"] >= 0
    assert [event["event"] for event in answered.events] == ["log"]


def test_node(ask) -> None:
    code, answered = ask("words.mjs", "text.words", {"text": "one $(two)\nthree é"})
    assert (code, answered.answer) == (0, {"ok": True, "words": 4, "lines": 2})
    assert [event["progress"] for event in answered.events] == [1, 2]
    code, answered = ask("words.mjs", "text.words", {})
    assert (code, answered.answer["code"]) == (1, "invalid-input")


def test_python_alone(ask, starter) -> None:
    code, answered = ask("upper.py", "text.upper", {"text": "é\n"})
    assert (code, answered.answer["text"]) == (0, "É\n")
    made = answered.answer["artifacts"][0]
    assert Path(made["path"]).read_bytes() == "É\n".encode()
    assert made["bytes"] == 3
    assert ask("upper.py", "text.upper", {"text": 1})[1].answer["code"] == "invalid-input"


def test_python_with_the_kit(ask, starter) -> None:
    (starter.project / "notes").write_text("a\nb\nc")
    code, answered = ask("lines.py", "text.lines", {"path": "notes"})
    assert (code, answered.answer) == (0, {"ok": True, "lines": 3})
    assert ask("lines.py", "text.lines", {"path": "notes", "limit": 1})[1].answer["code"] == "too-large"
    assert ask("lines.py", "text.lines", {"path": "../artifacts"})[1].answer["code"] == "outside-project"


def test_the_contract_s_own_example_works(starter) -> None:
    text = (ROOT / "docs" / "writing-sidecars.md").read_text()
    example = json.loads(re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0])
    example["projectDir"] = str(starter.project)
    (starter.project / "README.md").write_bytes(b"hello")
    done = starter.run("utility.local", stdin=json.dumps(example).encode() + os.linesep.encode())
    assert done.answer["digest"] == hashlib.sha256(b"hello").hexdigest()


def test_a_typed_function(ask) -> None:
    code, answered = ask("repeat.py", "text.repeat", {"text": "a", "times": 3, "marks": ["-"]})
    assert (code, answered.answer) == (0, {"ok": True, "result": "a-a-a"})
    assert ask("repeat.py", "text.repeat", {"text": 1})[1].answer["field"] == "text"


def test_those_that_stay_answer_each_line(starter, require_programs) -> None:
    require_programs("node")
    for name, given in (
        ("uptime.sh", {}),
        ("tally.mjs", {"text": "one two"}),
        ("repeat.py", {"text": "a"}),
        ("recall.py", {"text": "a"}),
    ):
        file = starter.project / name
        file.write_text(PROGRAMS[name])
        file.chmod(0o755)
        asked = b"".join(
            starter.request("a.tool" if name != "repeat.py" else "text.repeat", given, **more)
            for more in ({"requestId": "one", "persistent": True}, {"requestId": "two", "persistent": True})
        )
        done = subprocess.run(
            [str(file)],
            input=asked + b'{"cancel": "two"}\n',
            capture_output=True,
            env=starter.env,
            check=True,
        )
        answers = [line for line in map(json.loads, done.stdout.splitlines()) if "ok" in line]
        assert [answer["requestId"] for answer in answers] == ["one", "two"], done.stderr
        assert answers[0]["ok"] is True
