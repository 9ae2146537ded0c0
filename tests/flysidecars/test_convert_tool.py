"""`data.convert` as a process: input inline or from a file, the result inline or in a file."""

from __future__ import annotations

import csv
import json
import resource
import subprocess
from pathlib import Path

import pytest


def convert(starter, source: str, target: str, **more: str):
    return starter.call("utility.local", "data.convert", {"from": source, "to": target, **more})


def test_inline(starter) -> None:
    done = convert(starter, "json", "yaml", input='{"a": [1, "ü"]}')
    assert done.answer == {"ok": True, "output": "a:\n- 1\n- ü\n", "bytes": 12}


def test_from_file_to_file(starter) -> None:
    (starter.project / "in.toml").write_text("a = 1 # one\n")
    done = convert(starter, "toml", "json", path="in.toml", outputPath="new/out.json")
    made = starter.project / "new" / "out.json"
    assert json.loads(made.read_text()) == {"a": 1}
    assert done.answer["outputPath"] == str(made)
    assert done.answer["lossy"] == ["comments (#) are not kept"]
    assert done.answer["artifacts"] == [
        {"path": str(made), "mimeType": "application/json", "bytes": made.stat().st_size}
    ]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"path": "../secret"}, "outside-project"),
        ({"path": "none"}, "not-found"),
        ({"path": "way"}, "outside-project"),
        ({"input": "1", "outputPath": "../new"}, "outside-project"),
        ({"input": "1", "outputPath": "there"}, "exists"),
        ({"path": "latin"}, "unreadable"),
        ({}, "invalid-input"),
        ({"input": '"' + "x" * 600_000 + '"'}, "invalid-input"),
    ],
)
def test_refused(starter, more: dict[str, str], code: str) -> None:
    (starter.project.parent / "secret").write_text("1")
    (starter.project / "there").write_text("mine")
    (starter.project / "latin").write_bytes(b'"\xff"')
    (starter.project / "way").symlink_to(starter.project.parent / "secret")
    done = convert(starter, "json", "yaml", **more)
    assert (done.code, done.answer["code"]) == (1, code)
    assert sorted(path.name for path in starter.project.iterdir()) == ["latin", "there", "way"]
    assert (starter.project / "there").read_text() == "mine"


def rows(path: Path, count: int) -> None:
    with path.open("w") as file:
        for number in range(count):
            file.write(json.dumps({"n": str(number), "text": 'a, "b"\nü' * 100}) + "\n")


def test_big_tables_go_row_by_row(starter) -> None:
    """20 MB each way within the memory of a process that may not hold them."""
    rows(starter.project / "big.jsonl", 20_000)
    size = (starter.project / "big.jsonl").stat().st_size
    assert size > 20_000_000

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (32 << 20, 32 << 20))

    for source, target, names in (
        ("jsonl", "csv", ("big.jsonl", "big.csv")),
        ("csv", "jsonl", ("big.csv", "back.jsonl")),
    ):
        request = starter.request(
            "data.convert", {"from": source, "to": target, "path": names[0], "outputPath": names[1]}
        )
        done = subprocess.run(
            starter.argv("utility.local"),
            input=request,
            capture_output=True,
            env=starter.env,
            preexec_fn=small,
            check=True,
        )
        answered = starter.read(done.stdout)
        assert answered.answer["ok"] is True
        progress = [event["progress"] for event in answered.events]
        assert progress
        assert progress == sorted(progress)
        assert all(event["progress"] <= event["total"] for event in answered.events)
    with (starter.project / "big.csv").open(newline="") as file:
        assert next(csv.DictReader(file)) == {"n": "0", "text": 'a, "b"\nü' * 100}
    lines = (starter.project / "back.jsonl").read_text().splitlines()
    assert len(lines) == 20_000
    assert json.loads(lines[-1]) == {"n": "19999", "text": 'a, "b"\nü' * 100}
