"""The command line when things changed: registry entries, policy files, the log's anchors, names."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kits.command_line import REGISTRY, Desk, until
from kits.console_processes import processes_of


def schema_of(command: str, desk: Desk) -> dict[str, Any]:
    """What `flytui schema COMMAND` prints."""
    found: dict[str, Any] = json.loads(desk.run("schema", command).stdout)
    return found


def changed_registry() -> dict[str, Any]:
    """The registry, with an entry that wants more than it did."""
    registry: dict[str, Any] = json.loads(json.dumps(REGISTRY))
    registry["sidecars"]["try.local"]["permissions"] = {"network": True}
    registry["sidecars"]["try.local"]["args"].append("p\u0430y")
    return registry


OVER = "2020-01-02T00:00:00Z"
DIFFERENCE = ['+ /args/1: "p⟦U+0430⟧y"', "+ /permissions/network: true"]


def checks(desk: Desk, name: str) -> list[dict[str, Any]]:
    """What doctor says under that name."""
    return [check for check in desk.document("doctor")["checks"] if check["name"] == name]


def test_a_changed_entry_is_told_with_its_difference_everywhere(trusted: Desk) -> None:
    trusted.write(changed_registry())
    for words in (("why", "try.echo"), ("inspect", "try.echo"), ("inspect", "try.local"), ("doctor",)):
        shown = trusted.run(*words).stdout
        assert "last trusted value is in force" in shown, words
        lines = [line.strip() for line in shown.splitlines()]
        assert all(line in lines for line in DIFFERENCE), (words, shown)
    assert len(trusted.document("why", "try.echo")["changed"]) == 2
    assert len(trusted.document("inspect", "try.echo")["sidecar"]["changed"]) == 2
    (check,) = [check for check in checks(trusted, "sidecar try.local") if check["difference"]]
    assert (check["state"], len(check["difference"])) == ("warn", 2)
    for command in ("why", "inspect"):
        jsonschema.validate(trusted.document(command, "try.echo"), schema_of(command, trusted))


def test_unknown_names_print_their_document(trusted: Desk) -> None:
    for command, key in (("why", "tool"), ("inspect", "name")):
        done = trusted.run(command, "file.hsh", "--json")
        assert done.returncode == 3
        document = json.loads(done.stdout)
        assert (document[key], document["nearest"][0]) == ("file.hsh", "file.hash")
        jsonschema.validate(document, schema_of(command, trusted))


def test_doctor_names_the_place_of_a_broken_policy_and_what_holds_meanwhile(trusted: Desk) -> None:
    policy = trusted.home / "config" / "flytui" / "policy.jsonc"
    with trusted.terminal() as console:
        until("it is open", lambda: trusted.owner() == "console")
        policy.write_text('{"schemaVersion": 1,\n "rules": [{]}')
        until("it is noticed", lambda: not trusted.document("status")["kernel"]["policyOk"])
        console.until("policy FAILED to load")
        found = checks(trusted, "policy")
        assert [check["state"] for check in found] == ["fail", "fail"]
        assert found[0]["message"].startswith(f"{policy}:2:")
        assert "last good rules" in found[1]["message"]
        assert f"pid {processes_of(console.process.pid).kernel}" in found[1]["message"]
        assert trusted.document("call", "try.echo", "message=hi")["status"] == "success"
        console.process.send_signal(signal.SIGTERM)
        console.end()
    assert "asks about every call" in checks(trusted, "policy")[1]["message"]
    assert trusted.run("doctor").returncode == 5


def test_doctor_lists_rules_that_are_over(trusted: Desk) -> None:
    rule = {
        "tool": "try.echo",
        "decision": "allow",
        "because": "for a day",
        "expires": OVER,
    }
    trusted.allow({"schemaVersion": 1, "rules": [rule]})
    (check,) = checks(trusted, "policy")
    assert check["state"] == "warn"
    assert "has expired" in check["message"]
    assert "policy.jsonc:1:" in check["message"]
    assert check["fix"]


def test_doctor_shows_broken_anchors(trusted: Desk) -> None:
    trusted.document("call", "try.echo", "message=hi")
    trusted.end_kernel()
    (anchors,) = Path(trusted.home / "data" / "flytui" / "anchors").glob("*.jsonl")
    anchors.write_text("nonsense\n" + anchors.read_text())
    (check,) = checks(trusted, "audit")
    assert check["state"] == "fail"
    assert str(anchors) in check["message"]
    assert "anchors were changed" in check["fix"]


def test_a_half_written_registry_says_what_holds(trusted: Desk) -> None:
    half = json.dumps(REGISTRY)[:-20]
    with trusted.terminal() as console:
        until("it is open", lambda: trusted.owner() == "console")
        trusted.write(half)
        until("it is noticed", lambda: bool(trusted.document("catalog")["diagnostics"]))
        assert "its last good state stays in force" in trusted.run("catalog").stderr
        assert trusted.document("call", "try.echo", "message=hi")["status"] == "success"
        console.process.send_signal(signal.SIGTERM)
        console.end()
    assert "none of its entries is in force" in trusted.run("catalog").stderr


@pytest.mark.parametrize("known", [False, True], ids=["new", "changed"])
def test_the_console_answers_and_the_command_leaves_with_zero(desk: Desk, known: bool) -> None:
    registry: dict[str, Any] = {
        "schemaVersion": 2,
        "sidecars": {"try.local": REGISTRY["sidecars"]["try.local"]},
    }
    desk.write(registry)
    desk.allow()
    if known:
        desk.trust()
    with desk.terminal() as console:
        until("it is open", lambda: desk.owner() == "console")
        if known:
            registry["sidecars"]["try.local"] = {**registry["sidecars"]["try.local"], "timeoutMs": 9_000}
            desk.write(registry)
            until("it waits", lambda: bool(desk.document("status")["waitingTrust"]))
        asking = desk.start("trust", "--json")
        console.until("trust 1")
        console.until("keys ready")
        until("it asks", lambda: desk.document("status")["kernel"]["clients"] > 1)
        assert asking.poll() is None
        console.decide("a", lambda: asking.poll() is not None)
        said, _ = asking.communicate(timeout=60)
        assert asking.returncode == 0
        assert json.loads(said)["outcome"] == "accepted"
        assert desk.document("call", "try.echo", "message=hi")["status"] == "success"
        console.process.send_signal(signal.SIGTERM)
        console.end()
    assert desk.document("trust")["outcome"] == "nothing-waits"
