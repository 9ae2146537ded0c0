"""A person stages, applies and takes back a package by keys, in a real terminal; an agent sees its tool only
while the installed version answers its probe."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from kits.agent import READING_SECONDS
from kits.mcp_client_process import answers_of
from kits.packages import Example, broken_example, shell_example
from kits.scenes import assert_whole, call
from kits.terminals import Root, Tmux, console, make_root, needs, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
TOOL = "greet-shell.greet"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux")
    root = make_root(tmp_path, json.dumps({"schemaVersion": 2, "sidecars": {}}))
    rules = [{"tool": TOOL, "decision": "allow", "because": "the scene says so"}]
    policy = root.home / "config" / "flytui" / "policy.jsonc"
    policy.parent.mkdir(parents=True)
    policy.write_text(json.dumps({"schemaVersion": 1, "rules": rules}))
    yield root
    root.end()


def leave_questions(tmux: Tmux, key: str, shows: str) -> None:
    """Press a key of the screen Packages until its page is open. A question may have opened over it, and is
    left waiting."""

    def opened() -> bool:
        screen = tmux.screen()
        if re.search(shows, screen):
            return True
        tmux.keys("Escape" if "leave it waiting" in screen else key)
        time.sleep(READING_SECONDS)
        return False

    until(f"what {key} shows", opened)


def upgrade(tmux: Tmux, example: Example, folder: Path) -> None:
    """Stage a version by its path, read its review, and apply it."""
    source = example.folder(folder)
    leave_questions(tmux, "s", "Stage a package for this project")
    tmux.text(str(source))
    tmux.keys("Enter")
    tmux.sees(rf"a applies {re.escape(example.version)}|leave it waiting")
    leave_questions(tmux, "a", f"Apply greet-shell {re.escape(example.version)}")
    tmux.sees(rf"version +.* → {re.escape(example.version)}")
    tmux.read_card()
    tmux.decide()


def seen_by_an_agent(root: Root) -> tuple[bool, bool]:
    """Whether a call of the tool over MCP fails, and whether the tool is listed after it. The list before the
    call may be that of the server before this one, which is answered until the kernel's is read."""
    asked = [("tools/call", {"name": "greet-shell_greet", "arguments": {}}), ("tools/list", {})]
    called, answer = anyio.run(answers_of, root.argv("mcp"), root.environ, root.folder, asked)
    names = [tool["name"] for tool in answer["tools"]]
    return bool(called.get("isError", "error" in called)), "greet-shell_greet" in names


def test_a_version_that_does_not_answer_is_hidden_and_one_key_goes_back(root: Root, tmp_path: Path) -> None:
    with console(root, 120, 45) as tmux:
        tmux.keys("6")
        tmux.sees("No package is installed or staged")
        upgrade(tmux, shell_example("1.0.0", "one"), tmp_path)
        tmux.sees(r"● idle +greet-shell")
        assert call(root, TOOL, {})[1]["output"]["text"] == "one"
        assert seen_by_an_agent(root) == (False, True)
        upgrade(tmux, broken_example("2.0.0"), tmp_path)
        tmux.sees(r"○ rollback-required +greet-shell")
        code, refused = call(root, TOOL, {})
        assert code != 0
        assert refused["error"]["code"] == "rollback-required"
        assert seen_by_an_agent(root) == (True, False)
        assert "rollback-required" in root.flytui("packages", "list").stdout
        leave = "has to be rolled back(.|\\n)*leave it waiting"
        if not re.search(leave, tmux.screen()):
            tmux.keys("C-o")
        tmux.sees(leave)
        tmux.sees(r"r roll back to 1\.0\.0 \(recommended\)")
        tmux.decide("r")
        tmux.sees(r"● idle +greet-shell +project +1\.0\.0")
        assert call(root, TOOL, {})[1]["output"]["text"] == "one"
        assert seen_by_an_agent(root) == (False, True)
    assert_whole(root)
    decisions = [line["decision"] for line in root.audit() if line["event"] == "PACKAGE_CHANGED"]
    assert decisions == [
        "apply begins",
        "apply",
        "apply begins",
        "apply",
        "rollback begins",
        "rollback",
    ]
