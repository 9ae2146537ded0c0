"""Completion in the shells themselves, where they are installed."""

from __future__ import annotations

import json
import subprocess

import pytest

from flycore.catalog.builtin import KNOWN
from kits.command_line import REGISTRY, Desk
from kits.programs import needs


def offered(desk: Desk, *words: str) -> list[str]:
    """What bash would be offered for the last of these words."""
    line = {"COMP_WORDS": "\n".join(("flytui", *words)), "COMP_CWORD": str(len(words))}
    done = subprocess.run(
        [*desk.argv()[:3]],
        env={**desk.environ, **line, "_FLYTUI_COMPLETE": "bash_complete", "FLYTUI_ROOT": str(desk.root)},
        cwd=desk.root,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_commands_tools_and_sidecars_are_offered(desk: Desk) -> None:
    assert offered(desk, "acti") == ["activity"]
    assert offered(desk, "call", "try.") == ["try.echo"]
    assert offered(desk, "why", "vision.oc") == ["vision.ocr"]
    assert offered(desk, "preflight", "try.echo", "file.h") == ["file.hash"]
    assert offered(desk, "policy", "explain", "try") == ["try.echo"]
    assert offered(desk, "inspect", "utility") == ["utility.local"]
    assert set(offered(desk, "call", "")) == {*KNOWN, "try.echo"}
    assert offered(desk, "completion", "z") == ["zsh"]
    assert "--follow" in offered(desk, "activity", "--")


def test_the_root_that_the_line_names_counts(desk: Desk) -> None:
    other = desk.root / "below"
    other.mkdir()
    assert offered(desk, "--root", str(other), "call", "try.") == []
    assert offered(desk, "call", "--root", str(desk.root), "try.") == ["try.echo"]


@pytest.mark.parametrize("text", ["{", "[]", '{"sidecars": 7}', "\x00"])
def test_a_broken_registry_completes_what_is_known(desk: Desk, text: str) -> None:
    desk.write(text)
    assert offered(desk, "call", "vision.oc") == ["vision.ocr"]


NAMES = ["a$(touch owned)", "a`touch owned`", "a\ntouch owned", "a;touch owned", "a*", "a'b", 'a"b', "a\x1bb"]


def test_a_name_that_means_something_to_a_shell_is_not_offered(desk: Desk) -> None:
    registry = json.loads(json.dumps(REGISTRY))
    for number, name in enumerate(NAMES):
        tool = {**registry["sidecars"]["try.local"]["tools"][0], "name": name}
        registry["sidecars"][f"odd.{number}"] = {"command": "flytui-sidecar", "tools": [tool]}
    desk.write(registry)
    assert [name for name in offered(desk, "call", "a") if name not in KNOWN] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_one_the_shell_takes(desk: Desk, shell: str) -> None:
    done = desk.run("completion", shell)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "_FLYTUI_COMPLETE" in done.stdout
    needs(shell)
    checked = subprocess.run(
        [shell, "-n"], input=done.stdout, text=True, capture_output=True, timeout=60, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_bash_completes_with_the_script(desk: Desk) -> None:
    needs("bash")
    script = desk.run("completion", "bash").stdout
    program = (
        f"{script}\ncd '{desk.root}'\nCOMP_WORDS=(flytui call try.)\nCOMP_CWORD=2\n"
        '_flytui_completion flytui\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc"],
        input=program,
        env=desk.environ,
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.splitlines() == ["try.echo"], done.stderr
