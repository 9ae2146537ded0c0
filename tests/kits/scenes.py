"""The set-up of end-to-end tests: a registry, programs, a policy; and the log."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from kits.kernel import in_project
from kits.terminals import Root

REGISTRY = "tools/external.tools.jsonc"
IN_PROJECT: dict[str, Any] = {"fs": {"write": ["."]}}
"""The permissions of a program that leaves files for the test in the project, or waits for some there."""
PLACE = "external.tools.jsonc:"


def write_registry(root: Root, content: object) -> None:
    """Replace the registry in one step, as editors do. A text is written as it is; a dict contains the
    sidecars."""
    whole = content if isinstance(content, str) else json.dumps({"schemaVersion": 2, "sidecars": content})
    target = root.folder / REGISTRY
    fresh = target.with_suffix(".new")
    fresh.write_text(whole)
    os.replace(fresh, target)


def program(root: Root, name: str, text: str) -> str:
    """Write a program into a folder of its own and return the command that starts it."""
    folder = root.folder / "tools" / f"bin-{name}"
    folder.mkdir(exist_ok=True)
    (folder / "run").write_text(in_project(text, root.folder))
    (folder / "run").chmod(0o755)
    # A program that the test writes anew counts as accepted by a person.
    for seals in (root.home / "state").glob("flytui/roots/*/seals.json"):
        seals.unlink()
    return f"./tools/bin-{name}/run"


def described(name: str, risk: str = "medium", **more: Any) -> dict[str, Any]:
    """The description of a registry's own tool, which accepts any input."""
    return {
        "name": name,
        "description": name,
        "inputSchema": {"type": "object"},
        "risk": risk,
        **more,
    }


def allow(root: Root, *tools: str) -> None:
    """A user's rule for each tool that allows it without asking. The programs start in an empty folder,
    because no rule allows one that may run files of the project."""
    registry = root.folder / REGISTRY
    document = json.loads(registry.read_text())
    for entry in document["sidecars"].values():
        named = {item if isinstance(item, str) else item["name"] for item in entry.get("tools", ())}
        if named & set(tools) and entry["command"].startswith("./"):
            entry["cwd"] = "empty"
    registry.write_text(json.dumps(document))
    rules = [{"tool": tool, "decision": "allow", "because": "the scene says so"} for tool in tools]
    folder = root.home / "config" / "flytui"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.jsonc").write_text(json.dumps({"schemaVersion": 1, "rules": rules}))


def call(root: Root, tool: str, input: object, *more: str) -> tuple[int, dict[str, Any]]:
    """Make a call and return the exit code and the result."""
    done = root.flytui("call", tool, json.dumps(input), "--json", *more)
    assert "Traceback" not in done.stderr, done.stderr
    result = json.loads(done.stdout)
    assert isinstance(result, dict)
    return done.returncode, result


def assert_whole(root: Root) -> None:
    """Check that the log was not changed."""
    verified = root.flytui("audit", "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr


def flat(text: str) -> str:
    """The text with each run of blanks and line ends as one space, to compare wrapped sentences."""
    return " ".join(text.split())


def line_of(text: str, part: str) -> int:
    """The line, from 1, that contains the part; only one line does."""
    (found,) = re.finditer(re.escape(part), text)
    return text.count("\n", 0, found.start()) + 1


def holder(root: Root) -> dict[str, Any]:
    """What the lock file says about its holder; empty if the root is not locked."""
    for path in (root.home / "state").glob("flytui/roots/*/kernel.lock"):
        return dict(json.loads(path.read_text() or "{}"))
    return {}
