"""`flytui packages`: two packages built here are installed, called, upgraded and rolled back, by a person on
a terminal, by a script, and beside a console."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from kits.command_line import LONGEST, LOOK_AGAIN, REGISTRY, Desk, Terminal
from kits.packages import Example, broken_example, python_example, shell_example

END = "\x1b[F"
"""The key that scrolls a question to its last line, which a person has to have seen."""
ARMED_S = 1.5
"""Seconds in which a question that is shown whole is armed."""
ALLOW = {
    "schemaVersion": 1,
    "rules": [{"tool": "greet-*.greet", "decision": "allow", "because": "it only greets"}],
}


def stage(desk: Desk, example: Example, *words: str, form: str = "folder") -> None:
    source = getattr(example, form)(desk.home)
    done = desk.run("packages", "stage", str(source), *words)
    assert done.returncode == 0, done.stderr
    assert f"next: flytui packages apply {example.id}" in done.stderr


def agree(desk: Desk, *words: str) -> tuple[int, str]:
    """Run a command on a terminal and answer its question with yes."""
    with desk.terminal("packages", *words) as terminal:
        terminal.until("y/N")
        terminal.press("y\n")
        return terminal.end(), terminal.shown


def answer(console: Terminal, key: str, counted: Callable[[], bool]) -> None:
    """Open the question, scroll it to its end and press a key, again until it has counted: a key that comes
    before the question is armed has no effect."""
    end = time.monotonic() + LONGEST
    while not counted():
        assert time.monotonic() < end, f"{key} never counted: {console.shown[-2000:]!r}"
        # A question opens by itself only where no key was pressed for a while.
        for pressed in ("\x0f", END):
            console.press(pressed)
            armed = time.monotonic() + ARMED_S
            while time.monotonic() < armed:
                console.read(LOOK_AGAIN)
        if not counted():
            console.press(key)
        console.read(LOOK_AGAIN)


def greeting(desk: Desk, example: Example) -> str:
    done = desk.run("call", f"{example.id}.greet", json.dumps({"name": "Ada"}), "--json")
    result = json.loads(done.stdout)
    assert result["status"] == "success", result
    return str(result["output"]["text"])


@pytest.mark.parametrize(
    ("build", "form", "said"),
    [(python_example, "tar", ["hello, Ada", "moin, Ada"]), (shell_example, "zip", ["hello", "moin"])],
    ids=["python", "shell"],
)
def test_a_package_is_installed_called_upgraded_and_rolled_back(
    desk: Desk, build: type[Example], form: str, said: list[str]
) -> None:
    desk.allow(ALLOW)
    first, second = build("1.0.0", "hello"), build("1.1.0", "moin")
    registry = desk.root / "tools" / "external.tools.jsonc"
    stage(desk, first, form=form)
    code, shown = agree(desk, "apply", first.id)
    assert code == 0, shown
    assert f"+ tool   {first.id}.greet" in shown
    assert greeting(desk, first) == said[0]
    before = registry.read_text()
    stage(desk, second, form=form)
    assert agree(desk, "apply", first.id)[0] == 0
    assert greeting(desk, first) == said[1]
    assert registry.read_text() == before.replace('"1.0.0"', '"1.1.0"')
    assert desk.run("packages", "verify").returncode == 0
    code, shown = agree(desk, "rollback", first.id)
    assert code == 0, shown
    assert greeting(desk, first) == said[0]
    assert registry.read_text() == before
    document = desk.document("packages")
    [view] = document["packages"]
    assert (view["version"], view["state"], view["probed"]) == ("1.0.0", "idle", True)
    jsonschema.validate(document, json.loads(desk.run("schema", "packages").stdout))
    assert agree(desk, "remove", first.id)[0] == 0
    assert json.loads(registry.read_text()) == REGISTRY
    assert desk.document("packages")["packages"] == []


def test_without_a_person_nothing_gets_new_rights(desk: Desk) -> None:
    example = shell_example("1.0.0")
    stage(desk, example)
    done = desk.run("packages", "apply", example.id)
    assert done.returncode == 4
    assert "nobody is here to agree" in done.stderr
    assert desk.run("packages", "apply", example.id, "--json").returncode == 4
    assert json.loads((desk.root / "tools" / "external.tools.jsonc").read_text()) == REGISTRY
    with desk.terminal("packages", "apply", example.id) as terminal:
        terminal.until("y/N")
        terminal.press("n\n")
        assert terminal.end() == 4
    assert agree(desk, "apply", example.id)[0] == 0
    # A version that changes neither permissions nor risks is applied by a script, and waits for trust.
    stage(desk, shell_example("1.1.0", "moin"))
    done = desk.run("packages", "apply", example.id)
    assert done.returncode == 0, done.stderr
    assert "next: flytui trust" in done.stderr
    [view] = desk.document("packages")["packages"]
    assert (view["version"], view["probed"]) == ("1.1.0", False)
    assert [item["sidecar"] for item in desk.document("trust", "--print-digest")["waiting"]].count(example.id)
    stage(desk, shell_example("1.2.0", permissions={"network": True}))
    assert desk.run("packages", "apply", example.id).returncode == 4
    assert "reach    + /permissions/network: true" in desk.run("packages", "review", example.id).stdout


def test_a_version_that_does_not_answer_its_probe_has_to_be_rolled_back(desk: Desk) -> None:
    desk.allow(ALLOW)
    example = shell_example("1.0.0")
    stage(desk, example)
    assert agree(desk, "apply", example.id)[0] == 0
    stage(desk, broken_example("2.0.0"))
    code, shown = agree(desk, "apply", example.id)
    assert code == 1
    assert "rollback-required" in shown
    assert "flytui packages rollback greet-shell" in desk.run("why", "greet-shell.greet").stdout
    done = json.loads(desk.run("call", "greet-shell.greet", "{}", "--json").stdout)
    assert done["error"]["code"] == "rollback-required"
    assert desk.run("packages", "verify").returncode == 1
    assert agree(desk, "rollback", example.id)[0] == 0
    assert greeting(desk, example) == "hello"


def test_beside_a_console_a_person_answers_there_and_one_key_goes_back(desk: Desk) -> None:
    example = shell_example("1.0.0")
    desk.write({"schemaVersion": 2, "sidecars": {}})
    installed = desk.root / "tools" / "packages" / "greet-shell" / "run.sh"
    with desk.terminal() as console:
        console.until("Catalog")
        stage(desk, example)
        console.until("not installed → 1.0.0")
        waiting = desk.start("packages", "apply", example.id)
        assert waiting.stderr is not None
        assert b"Waiting" in waiting.stderr.readline()
        answer(console, "a", installed.exists)
        console.until_so("the command ends", lambda: waiting.poll() is not None)
        waiting.communicate(timeout=60)
        assert waiting.returncode == 0
        console.raw = ""
        stage(desk, broken_example("2.0.0"))
        console.until("1.0.0 → 2.0.0")
        answer(console, "a", lambda: installed.exists() and "exit 7" in installed.read_text())
        console.until("has to be rolled back")
        answer(console, "r", lambda: installed.exists() and "exit 7" not in installed.read_text())
    [view] = desk.document("packages")["packages"]
    assert (view["version"], view["state"]) == ("1.0.0", "idle")


def test_a_command_beside_a_kernel_without_a_console_is_refused(desk: Desk) -> None:
    example = shell_example("1.0.0")
    stage(desk, example)
    with desk.serving():
        done = desk.run("packages", "apply", example.id)
        assert done.returncode == 4
        assert "no console is open" in done.stderr
        assert not (desk.root / "tools" / "packages" / "greet-shell").exists()


def test_a_package_of_the_user_serves_another_project(desk: Desk, tmp_path: Path) -> None:
    desk.allow(ALLOW)
    example = shell_example("1.0.0", "mine")
    stage(desk, example, "--user")
    code, shown = agree(desk, "apply", example.id, "--user")
    assert code == 0, shown
    other = Desk(tmp_path / "other", desk.home)
    other.root.mkdir()
    assert greeting(other, example) == "mine"
    [view] = other.document("packages")["packages"]
    assert view["scope"] == "user"
    assert agree(desk, "rollback", example.id, "--user")[0] != 0
    assert agree(desk, "remove", example.id, "--user")[0] == 0


def test_refusals_have_their_reasons_and_codes(desk: Desk, tmp_path: Path) -> None:
    example = shell_example("1.0.0")
    example.stated = "0" * 64
    done = desk.run("packages", "stage", str(example.folder(tmp_path)))
    assert done.returncode == 5
    assert "checksum" in done.stderr
    for words in (
        ("apply", "nothing"),
        ("rollback", "nothing"),
        ("remove", "nothing"),
        ("review", "nothing"),
    ):
        assert desk.run("packages", *words).returncode == 3
    assert desk.run("packages").returncode == 0
    assert desk.run("packages", "stage", "/nowhere").returncode == 2
