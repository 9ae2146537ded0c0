"""A registry with every fault there is: what is well works; each fault says what, where and what to do."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from kits.scenes import PLACE, call, flat, line_of
from kits.terminals import Root, Tmux, console, make_root, needs, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
REGISTRY = """{
  "schemaVersion": 2,
  "sidecars": {
    // the one that is well
    "good": {"command": "flytui-sidecar", "args": ["utility.local"],
             "permissions": {"fs": {"read": ["."]}}, "tools": ["file.hash"]},
    "broken.entry": {
      "command": 7,
      "tools": ["web.fetch"],
    },
    "absolute.path": {
      "command": "/bin/true",
      "tools": ["web.download"],
    },
    "linked.out": {
      "command": "./tools/out/run",
      "tools": ["web.search"],
    },
    "command.missing": {
      "command": "./tools/nowhere",
      "tools": ["vision.ocr"],
    },
    "core.future": {
      "command": "flytui-sidecar",
      "compatibleCore": ">=99",
      "tools": ["audio.speak"],
    },
    "switched.off": {
      "command": "flytui-sidecar",
      "enabled": false, "disabledReason": "not before the audit",
      "tools": ["audio.transcribe"],
    },
    "double.claim": {
      "command": "flytui-sidecar", "args": ["utility.local"],
      /* second */ "tools": ["file.hash"],
    },
    "a.builtin": {
      "command": "flytui-sidecar",
      /* builtin */ "tools": ["workspace.read"],
    },
    "kind.http": {
      "command": "flytui-sidecar",
      "kind": "http",
      "tools": ["lsp.symbols"],
    },
    "no.interpreter": {
      "command": "./tools/scripted",
      "tools": ["data.convert"],
    },
  },
}
"""


class Fault(NamedTuple):
    """What is said of one broken entry."""

    sidecar: str
    code: str
    marks: str
    """What stands on the faulty line; empty where the fault lies in the program."""
    says: str
    remedy: str
    weight: str = "fail"
    """What doctor makes of it."""
    written: bool = False
    """Whether it is a fault of the file alone, which stands on the problems page."""


FAULTS = (
    Fault(
        "broken.entry",
        "manifest-invalid",
        '"command": 7',
        "must be a string",
        "write for example",
        written=True,
    ),
    Fault(
        "absolute.path",
        "outside-root-denied",
        '"command": "/bin/true"',
        "an absolute command never runs",
        "a path below the app folder that starts with ./",
    ),
    Fault(
        "linked.out",
        "outside-root-denied",
        '"command": "./tools/out/run"',
        "leads out of the app folder",
        "a path below the app folder that starts with ./",
    ),
    Fault(
        "command.missing",
        "command-not-found",
        '"command": "./tools/nowhere"',
        "there is no such file in the app folder",
        "put the program there",
        "warn",
    ),
    Fault(
        "core.future",
        "core-incompatible",
        '"compatibleCore"',
        "made for flytui >=99",
        'correct "compatibleCore"',
    ),
    Fault(
        "switched.off",
        "disabled",
        '"enabled": false',
        "not before the audit",
        'set "enabled" to true',
        "ok",
    ),
    Fault(
        "double.claim",
        "",
        '/* second */ "tools"',
        "file.hash is offered by good",
        "remove file.hash from one of the two",
        "warn",
        written=True,
    ),
    Fault(
        "a.builtin",
        "manifest-invalid",
        '/* builtin */ "tools"',
        "workspace.read is builtin and cannot be offered",
        "remove it",
        written=True,
    ),
    Fault(
        "kind.http",
        "manifest-invalid",
        '"kind.http"',
        "the key exec is missing",
        'add "exec": ',
        written=True,
    ),
    Fault(
        "no.interpreter",
        "interpreter-missing",
        "",
        "/opt/nowhere/python9, which does not exist here",
        "install python9, or correct the first line of ./tools/scripted",
        "warn",
    ),
)


def place(fault: Fault) -> str:
    """File and line, as they are written wherever the fault is shown."""
    return f"{PLACE}{line_of(REGISTRY, fault.marks)}" if fault.marks else "./tools/scripted"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    root = make_root(tmp_path, REGISTRY)
    tools = root.folder / "tools"
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.copy("/bin/true", outside / "run")
    (tools / "out").symlink_to(outside)
    (tools / "scripted").write_text("#!/opt/nowhere/python9\n")
    (tools / "scripted").chmod(0o755)
    (root.folder / "README.md").write_text("something to hash\n")
    root.trust()
    yield root
    root.end()


def test_the_command_line_lists_each_fault_and_runs_what_is_well(root: Root) -> None:
    code, result = call(root, "file.hash", {"path": "README.md"})
    assert (code, result["status"], result["sidecar"]) == (0, "success", "good")

    doctor = root.flytui("doctor")
    checks = json.loads(root.flytui("doctor", "--json").stdout)["checks"]
    assert doctor.returncode == 5
    for fault in FAULTS:
        _is_inspected(root, fault)
        name = f"sidecar {fault.sidecar}"
        (check,) = [check for check in checks if check["name"] == name and fault.says in check["message"]]
        assert check["state"] == fault.weight
        assert place(fault) in check["message"] + check["fix"], fault.sidecar
        assert fault.remedy in check["fix"]
        shown = doctor.stdout[doctor.stdout.index(f"{name}: {check['message']}") :]
        assert shown.splitlines()[1].strip() == f"→ {check['fix']}"
    assert not [check for check in checks if check["name"] == "sidecar good" and check["state"] != "ok"]


def _is_inspected(root: Root, fault: Fault) -> None:
    done = root.flytui("inspect", fault.sidecar, "--json")
    assert done.returncode == 0
    sidecar = json.loads(done.stdout)["sidecar"]
    reasons = sidecar["stability"]["reasons"]
    assert [reason["code"] for reason in reasons] == ([fault.code] if fault.code else [])
    problems = sidecar["entry"]["problems"]
    found = [(item["message"], item["remedy"]) for item in (*reasons, *problems)]
    assert any(fault.says in message and fault.remedy in remedy for message, remedy in found)
    places = [f"external.tools.jsonc:{item['position']['line']}" for item in problems]
    assert any(place(fault) in text for text in (*places, *(part for pair in found for part in pair)))


CALLS = [
    ("web.fetch", {"url": "http://a/"}, "manifest-invalid"),
    ("web.download", {"url": "http://a/", "path": "x"}, "outside-root-denied"),
    ("web.search", {"query": "x"}, "outside-root-denied"),
    ("vision.ocr", {"path": "README.md"}, "command-not-found"),
    ("audio.speak", {"text": "x"}, "core-incompatible"),
    ("audio.transcribe", {"path": "x"}, "disabled"),
    ("lsp.symbols", {"path": "x"}, "manifest-invalid"),
    ("data.convert", {"from": "json", "to": "csv", "path": "x"}, "interpreter-missing"),
]


def test_a_call_of_each_ends_unavailable_with_its_reason(root: Root) -> None:
    for tool, given, code in CALLS:
        exit_code, result = call(root, tool, given)
        assert (exit_code, result["status"], result["error"]["code"]) == (3, "unavailable", code), tool
        assert result["error"]["hint"], tool


def test_the_console_lists_each_fault_and_keeps_what_is_well(root: Root) -> None:
    needs("tmux")
    with console(root, 140, 150) as tmux:
        tmux.sees(r"available +file\.hash")
        for fault in FAULTS:
            tmux.keys("/")
            tmux.text(fault.sidecar)
            tmux.keys("Enter")
            tmux.sees(rf"match “{re.escape(fault.sidecar)}”")
            tmux.keys("Enter")
            tmux.sees(rf"id +{re.escape(fault.sidecar)} ")
            _shows(tmux, fault.code, fault.says, fault.remedy, place(fault))
            tmux.keys("Escape")
            tmux.sees(rf"match “{re.escape(fault.sidecar)}”")
            tmux.keys("Escape")
            tmux.lacks("match “")
        tmux.keys("p")
        tmux.sees(r"Problems\s[\s\S]*→")
        for fault in (fault for fault in FAULTS if fault.written):
            _shows(tmux, fault.sidecar, fault.says, fault.remedy, place(fault))
        tmux.keys("Escape")
        code, result = call(root, "file.hash", {"path": "README.md"})
        assert (code, result["status"]) == (0, "success")


def _shows(tmux: Tmux, *parts: str) -> None:
    """Wait until the screen shows every part, wherever its lines are wrapped."""
    for part in parts:
        until(f"{part} on the screen", partial(_on_screen, tmux, part))


def _on_screen(tmux: Tmux, part: str) -> bool:
    return part in flat(tmux.screen())
