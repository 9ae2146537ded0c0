"""A registry as Flyflor's documents have it is brought to work by following only what flytui prints."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from flycore.registry.jsonc.parse import parse_jsonc
from kits.command_line import Desk
from kits.foreign_sidecars import UTILITY, WEB, program

REGISTRY = "tools/external.tools.jsonc"
UTILITY_PROGRAM = "tools/packages/utility/bin/flyflor"
THEIRS = {
    "schemaVersion": 2,
    "sidecars": {
        "utility.local": {
            "command": f"./{UTILITY_PROGRAM}",
            "cwd": "app",
            "packageId": "utility",
            "protocolVersion": "process-json/1",
            "compatibleCore": "^0.1.0",
            "config": {"lspCommand": "", "taskCommand": ""},
            "timeoutMs": 0,
            "tools": [*UTILITY],
        },
        "web.search": {
            "command": "./tools/packages/search-web/bin/flyflor",
            "cwd": "project",
            "config": {"providers": []},
            "tools": [*WEB],
        },
    },
}
"""The second program is not there: its installer built it elsewhere."""
MOST_STEPS = 5


class Person:
    """Follows what flytui prints, and counts what has to be done."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.steps: list[str] = []

    def read(self) -> dict[str, Any]:
        """The sidecars of the catalog by their ids."""
        return {sidecar["id"]: sidecar for sidecar in self._desk.document("catalog")["sidecars"]}

    def printed(self) -> str:
        done = self._desk.run("catalog")
        return done.stdout + done.stderr

    def do(self, *words: str) -> None:
        self.steps.append(f"flytui {words[0]}")
        done = self._desk.run(*words)
        assert done.returncode == 0, done.stderr

    def trust(self) -> None:
        waiting = json.loads(self._desk.run("trust", "--print-digest", "--json").stdout)
        self.do("trust", "--digest", waiting["digest"])

    def write(self, sidecar: str, entry: object) -> None:
        """Write an entry into the registry as it was printed."""
        self.steps.append(f"edit {sidecar}")
        file = self._desk.root / REGISTRY
        value, problem = parse_jsonc(file.read_text(), REGISTRY)
        assert problem is None
        value["sidecars"][sidecar] = entry  # type: ignore[index, call-overload]  # an object of the registry
        file.write_text(json.dumps(value, indent=2))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path / "root", tmp_path / "home")
    foreign = made.root / UTILITY_PROGRAM
    foreign.parent.mkdir(parents=True)
    foreign.write_text(program())
    foreign.chmod(0o755)
    (made.home / "run").mkdir(parents=True, mode=0o700)
    (made.root / REGISTRY).write_text(json.dumps(THEIRS, indent=2))
    (made.root / "hello.txt").write_text("hello\n")
    return made


def test_their_registry_works_after_what_flytui_prints_was_followed(desk: Desk) -> None:
    person = Person(desk)
    assert "flytui trust" in person.printed()
    person.trust()

    # Its tools that act ignore what they do not know, which is said, with the command that helps.
    assert "flytui migrate" in person.printed()
    person.do("migrate", "--apply")
    assert "flytui trust" in person.printed()
    person.trust()

    printed = person.printed()
    begin = printed.index('use flytui\'s own program: "web.search": ')
    entry, _ = json.JSONDecoder().raw_decode(printed[printed.index("{", begin) :])
    person.write("web.search", entry)
    person.trust()

    assert len(person.steps) <= MOST_STEPS, person.steps
    seen = person.read()
    assert seen["utility.local"]["stability"]["effective"] == "available"
    catalog = desk.document("catalog")["capabilities"]
    states = {
        view["name"]: view["stability"]
        for view in catalog
        if view["sidecar"] in ("utility.local", "web.search")
    }
    assert set(states) == {*UTILITY, *WEB}
    unavailable = {name: state for name, state in states.items() if state["effective"] != "available"}
    # No provider is configured, which no program can know: it is said.
    assert set(unavailable) <= {"web.search"}
    assert all(state["reasons"][0]["remedy"] for state in unavailable.values())


def test_no_program_of_theirs_ran_before_a_person_trusted_it(desk: Desk) -> None:
    before = sorted(os.listdir((desk.root / UTILITY_PROGRAM).parent))
    Person(desk).printed()
    for words in (("migrate",), ("lint",), ("doctor",)):
        desk.run(*words)
    assert sorted(os.listdir((desk.root / UTILITY_PROGRAM).parent)) == before
