"""The command line where a person sits: signals, the trust question, the console, the demo."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path

import msgspec
import pytest

from flycore.kernel.compose import open_kernel
from flycore.kernel.lock import RootLock
from flycore.model.enums import Effective, KernelRole
from flytui.cli.demo_root import ALLOWED, HIGH, MEDIUM, TOOLS, prepare_demo
from kits.command_line import REGISTRY, Desk, until
from kits.console_processes import processes_of
from kits.kernels import kernel_of

SLOW = ("call", "try.echo", "message=hi", "delayMs=60000", "--json")


def events(desk: Desk) -> list[str]:
    """Names of the log's lines."""
    return [line["event"] for line in desk.document("audit", "tail", "-n", "50")["lines"]]


def audited(desk: Desk) -> list[dict[str, object]]:
    """The log's last lines."""
    lines: list[dict[str, object]] = desk.document("audit", "tail", "-n", "50")["lines"]
    return lines


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_cancels_the_call_and_nothing_of_it_survives(
    trusted: Desk, signum: signal.Signals, code: int
) -> None:
    process = trusted.start(*SLOW)
    until("the call runs", lambda: "TOOL_STARTED" in events(trusted))
    process.send_signal(signum)
    said, _ = process.communicate(timeout=60)
    result = json.loads(said)
    assert process.returncode == code
    assert (result["status"], result["error"]["code"]) == ("failed", "cancelled")
    until("the kernel ended it", lambda: "TOOL_EXECUTED" in events(trusted))
    assert trusted.survivors() == []
    lines = trusted.document("audit", "tail", "-n", "50")["lines"]
    last = next(line for line in reversed(lines) if "tool" in line)
    assert (last["event"], last["tool"], last["code"]) == ("TOOL_EXECUTED", "try.echo", "cancelled")


def test_the_loss_of_the_kernel_is_said(trusted: Desk) -> None:
    calls = [trusted.start(*SLOW) for _ in range(2)]
    until("both run", lambda: trusted.document("status")["kernel"]["running"] == 2)
    status = trusted.document("status")["kernel"]
    assert (status["pid"], status["role"], status["onDemand"]) == (kernel_of(trusted.home), "headless", True)
    assert trusted.run("trust", "--digest", "0" * 64).returncode == 4
    os.kill(status["pid"], signal.SIGKILL)
    for call in calls:
        said, _ = call.communicate(timeout=60)
        assert call.returncode == 7
        assert json.loads(said)["status"] == "unknown"


@pytest.mark.parametrize(
    ("answer", "code"), [("y", 0), ("yes", 0), ("", 4), ("n", 4), ("yy", 4), ("always", 4)]
)
def test_only_yes_trusts(desk: Desk, answer: str, code: int) -> None:
    with desk.terminal("trust") as shown:
        shown.until("y/N")
        shown.press(f"{answer}\n")
        assert shown.end() == code
    assert "flytui-sidecar" in shown.shown
    assert bool(desk.document("trust")["waiting"]) is (code != 0)


def test_end_of_file_trusts_nothing(desk: Desk) -> None:
    with desk.terminal("trust") as shown:
        shown.until("y/N")
        shown.press("\x04")
        assert shown.end() == 4
    assert desk.document("trust")["waiting"]


def test_without_a_terminal_trust_prints_its_digest(desk: Desk) -> None:
    done = desk.run("trust")
    assert done.returncode == 4
    digest = desk.document("trust", "--print-digest")["digest"]
    assert done.stdout.splitlines()[-1] == f"digest {digest}"
    assert desk.run("trust", "--digest", "0" * 64).returncode == 4
    assert desk.run("trust", "--digest", digest).returncode == 0
    assert desk.run("trust").stdout == ""
    assert [name for name in events(desk) if name.startswith("TRUST")] == ["TRUST_DECIDED"]


def test_a_digest_accepts_only_what_it_was_shown_for(desk: Desk) -> None:
    digest = desk.document("trust", "--print-digest")["digest"]
    changed = json.loads(json.dumps(REGISTRY))
    changed["sidecars"]["try.local"]["args"] = ["mock.echo", "--more"]
    desk.write(changed)
    assert desk.run("trust", "--digest", digest).returncode == 4
    assert len(desk.document("trust")["waiting"]) == 3


def test_revoked_trust_is_gone(trusted: Desk) -> None:
    assert trusted.document("trust", "--revoke")["outcome"] == "revoked"
    assert trusted.document("call", "try.echo", "message=hi")["error"]["code"] == "folder-untrusted"


def test_revoking_acts_at_once_while_a_kernel_runs(trusted: Desk) -> None:
    with trusted.terminal() as console:
        until("it is open", lambda: trusted.owner() == "console")
        assert trusted.document("call", "try.echo", "message=hi")["status"] == "success"
        done = trusted.run("trust", "--revoke", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["outcome"] == "revoked"
        assert trusted.document("call", "try.echo", "message=hi")["error"]["code"] == "folder-untrusted"
        assert len(trusted.document("trust", "--print-digest")["waiting"]) == 3
        console.process.send_signal(signal.SIGTERM)
        assert console.end() == 143
    (line,) = [line for line in audited(trusted) if line.get("decision") == "revoked"]
    assert line["decidedBy"].startswith("flytui trust --revoke, ")


def test_a_changed_entry_is_shown_with_its_difference(trusted: Desk) -> None:
    registry = json.loads(json.dumps(REGISTRY))
    registry["sidecars"]["try.local"]["args"] = ["mock.echo", "\u202e--evil"]
    registry["sidecars"]["try.local"]["permissions"] = {"network": True}
    trusted.write(registry)
    shown = trusted.run("trust")
    assert shown.returncode == 4
    lines = [line.strip() for line in shown.stdout.splitlines()]
    assert "try.local  (changed since it was trusted)" in lines
    assert '+ /args/1: "⟦U+202E⟧--evil"' in lines
    assert "+ /permissions/network: true" in lines
    assert "file.hash" not in shown.stdout
    (item,) = trusted.document("trust", "--print-digest")["waiting"]
    assert (item["changed"], len(item["difference"])) == (True, 2)
    assert trusted.document("call", "try.echo", "message=hi")["status"] == "success"


def test_what_would_run_is_shown_as_it_is(desk: Desk) -> None:
    hostile = json.loads(json.dumps(REGISTRY))
    hostile["sidecars"]["try.local"]["args"] = ["\x1b[2J\u202epаypal"]
    desk.write(hostile)
    done = desk.run("trust")
    assert "⟦U+202E⟧" in done.stdout
    assert "⟦U+0430⟧" in done.stdout
    assert "\x1b" not in done.stdout


def test_the_console_is_found_by_the_others(trusted: Desk) -> None:
    trusted.allow({"schemaVersion": 1, "rules": []})
    registry = json.loads(json.dumps(REGISTRY))
    registry["sidecars"]["try.local"]["tools"][0]["risk"] = "high"
    trusted.write(registry)
    trusted.trust()
    with trusted.terminal() as console:
        console.until("try.echo")
        console.until_so(
            "somebody can decide", lambda: bool(trusted.document("status")["kernel"]["approver"])
        )
        assert trusted.run("--json", "trust", "--digest", "0" * 64).returncode == 4
        second = trusted.run("serve")
        assert second.returncode == 5
        kernel = processes_of(console.process.pid).kernel
        assert f"pid {kernel}" in second.stderr
        with trusted.terminal() as other:
            other.until(f"on pid {kernel}")
            other.until("Type it here to decide")
            other.process.send_signal(signal.SIGTERM)
            assert other.end() == 143
        waiting = trusted.start("call", "try.echo", "message=please", "--json")
        console.until_so("it waits", lambda: bool(trusted.document("approvals")["asks"]))
        (ask,) = trusted.document("approvals")["asks"]
        listed = trusted.run("approvals")
        assert "waiting" in listed.stdout
        assert ask["request"]["id"] in listed.stdout
        card = trusted.run("approvals", "show", ask["request"]["id"]).stdout
        assert "│message  please" in card
        waiting.send_signal(signal.SIGINT)
        waiting.communicate(timeout=60)
        assert waiting.returncode == 130
        console.until_so(
            "it is withdrawn",
            lambda: [ask["state"] for ask in trusted.document("approvals")["asks"]] == ["withdrawn"],
        )
        console.process.send_signal(signal.SIGTERM)
        assert console.end() == 143
    assert trusted.survivors() == []


def test_commands_below_a_program_without_a_file_ask_the_kernel(trusted: Desk) -> None:
    shell = os.memfd_create("sealed", 0)
    os.write(shell, Path("/bin/sh").resolve().read_bytes())
    command = " ".join(map(shlex.quote, trusted.argv("status", "--json")))
    with trusted.terminal() as console:
        console.until("try.echo")
        told = subprocess.run(
            [f"/proc/self/fd/{shell}", "-c", f"{command}; exit $?"],
            env=trusted.environ,
            cwd=trusted.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            pass_fds=(shell,),
            check=False,
        )
        os.close(shell)
        assert told.returncode == 0, told.stderr
        assert json.loads(told.stdout)["kernel"]["pid"] == processes_of(console.process.pid).kernel


def test_trust_waits_for_the_console(desk: Desk) -> None:
    with desk.terminal() as console:
        until("it is open", lambda: desk.owner() == "console")
        with desk.terminal("trust") as asking:
            asking.until(f"pid {processes_of(console.process.pid).kernel}")
            asking.process.send_signal(signal.SIGINT)
            assert asking.end() == 130, asking.shown
        assert desk.document("trust", "--print-digest")["waiting"]


@pytest.mark.anyio
async def test_the_demo_root_is_ready_to_play(tmp_path: Path) -> None:
    made = prepare_demo(tmp_path, {**os.environ, "FLYTUI_ROOT": "/nowhere"})
    assert "FLYTUI_ROOT" not in made.environ
    for folder in (made.places.state_dir, made.places.config_dir, made.places.socket):
        assert folder.is_relative_to(tmp_path)
    with RootLock.acquire(made.places, KernelRole.HEADLESS) as holder:
        async with open_kernel(made.places, holder, made.environ) as kernel:
            catalog = kernel.catalog()
    assert catalog.diagnostics == ()
    seen = {name: catalog.capability(name) for name in TOOLS}
    found = {
        name: (view.stability.effective, view.decision, view.capability.risk.value)
        for name, view in seen.items()
        if view is not None
    }
    assert found == {
        ALLOWED: (Effective.AVAILABLE, "allow", "medium"),
        MEDIUM: (Effective.AVAILABLE, "ask", "medium"),
        HIGH: (Effective.AVAILABLE, "ask", "high"),
    }


def test_the_demo_opens_a_console_and_calls_it(desk: Desk) -> None:
    with desk.terminal("demo") as shown:
        shown.until(MEDIUM)
        shown.until("approve once")
        shown.press("d")
        shown.until(HIGH)
        shown.process.send_signal(signal.SIGTERM)
        assert shown.end() == 143
    until("its calls are gone", lambda: desk.survivors() == [])


def test_documents_survive_a_round_trip(trusted: Desk) -> None:
    from flytui.cli.documents import StatusDocument

    done = trusted.run("status", "--json")
    assert msgspec.json.decode(done.stdout, type=StatusDocument).app_root == str(trusted.root)
