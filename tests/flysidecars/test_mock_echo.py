"""`mock.echo` does what it is told, also when that is wrong."""

from __future__ import annotations

import signal
import subprocess

import pytest


def test_echo(starter) -> None:
    sent = {"message": "é \x1b]0;t\x07 \u202e", "n": [1, {"a": None}]}
    done = starter.call("mock.echo", "any.tool", sent)
    assert done.answer == {"ok": True, "tool": "any.tool", "echo": sent}
    assert done.out.isascii()
    assert b"\x1b" not in done.out


def test_delay_reports_progress(starter) -> None:
    done = starter.call("mock.echo", "t", {"delayMs": 250})
    assert [event["progress"] for event in done.events] == [0, 100, 200]
    assert done.answer["ok"] is True


def test_big_answer(starter) -> None:
    done = starter.call("mock.echo", "t", {"bytes": 3_000_000})
    assert len(done.answer["filler"]) == 3_000_000


@pytest.mark.parametrize(
    ("way", "code", "answer_code"),
    [
        ("failed", 1, "mock-failed"),
        ("unavailable", 1, "unavailable"),
        ("crash", -signal.SIGSEGV, None),
        ("exit", 3, None),
        ("garbage", 0, None),
    ],
)
def test_failures(starter, way: str, code: int, answer_code: str | None) -> None:
    done = starter.call("mock.echo", "t", {"fail": way})
    assert (done.code, done.answer.get("code")) == (code, answer_code)


def test_noise_on_stderr_keeps_the_answer(starter) -> None:
    done = starter.call("mock.echo", "t", {"fail": "stderr"})
    assert done.answer["ok"] is True
    assert len(done.stderr) > 64 * 1024


def test_hang(starter) -> None:
    process = subprocess.Popen(
        starter.argv("mock.echo"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=starter.env
    )
    with process:
        request = starter.request("t", {"fail": "hang", "delayMs": 1})
        assert process.stdin
        assert process.stdout
        process.stdin.write(request)
        process.stdin.close()
        assert process.stdout.readline()
        assert process.poll() is None
        process.kill()


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, {"ok": True, "protocol": "process-json/1", "status": "healthy"}),
        ({"probe": "healthy"}, {"ok": True, "protocol": "process-json/1", "status": "healthy"}),
        ({"probe": "slow"}, {"ok": True, "protocol": "process-json/1", "status": "healthy"}),
    ],
)
def test_probes(starter, config: dict[str, str], expected: dict[str, object]) -> None:
    assert starter.call("mock.echo", "t", {"probe": True}, config=config).answer == expected


def test_unwell_probes_say_what_to_do(starter) -> None:
    degraded = starter.call("mock.echo", "t", {"probe": True}, config={"probe": "degraded"}).answer
    assert (degraded["ok"], degraded["status"]) == (True, "degraded")
    assert degraded["remedy"]
    gone = starter.call("mock.echo", "t", {"probe": True}, config={"probe": "unavailable"}).answer
    assert (gone["ok"], gone["code"]) == (False, "unavailable")
    assert gone["remedy"]
