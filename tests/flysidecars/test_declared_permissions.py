"""The bundled tools hold themselves to what their entry declares, as real processes."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

import pytest

from flysidecars.sdk import ToolFailed
from flysidecars.sdk.permissions import Permissions

HOOK = ".git/hooks/pre-commit"
PROTECTED = (
    *(HOOK, "sub/.GIT/config", "tools/external.tools.jsonc", "tools/policy.jsonc", ".flyflor/tools/x"),
    *("sub/.vscode/tasks.json", "CLAUDE.md", ".mcp.json", "tools/bin/x"),
)


def convert(starter: Any, path: str, write: list[str] | None) -> dict[str, Any]:
    more = {} if write is None else {"permissions": {"network": False, "read": ["."], "write": write}}
    asked = {"from": "json", "to": "yaml", "input": "{}", "outputPath": path}
    answer: dict[str, Any] = starter.call("utility.local", "data.convert", asked, **more).answer
    return answer


@pytest.mark.parametrize("path", PROTECTED)
@pytest.mark.parametrize("write", [["."], None])
def test_what_decides_what_runs_is_never_written(starter, path: str, write: list[str] | None) -> None:
    (starter.project / ".git").mkdir()
    (starter.project / "tools").mkdir()
    answer = convert(starter, path, write)
    assert (answer["ok"], answer["code"]) == (False, "not-permitted")
    assert [str(found) for found in starter.project.rglob("*") if found.is_file()] == []
    assert os.listdir(starter.project / ".git") == []


def test_a_link_leads_to_no_protected_folder(starter) -> None:
    (starter.project / ".git" / "hooks").mkdir(parents=True)
    (starter.project / "downloads").mkdir()
    (starter.project / "downloads" / "here").symlink_to("../.git/hooks")
    for path in ("downloads/here/pre-commit", "downloads/here/new/file"):
        assert convert(starter, path, ["downloads"])["code"] == "not-permitted"
    assert os.listdir(starter.project / ".git" / "hooks") == []


def test_only_declared_folders_are_written(starter) -> None:
    assert convert(starter, "downloads/a/b.yaml", ["downloads"])["ok"]
    assert convert(starter, str(starter.project / "downloads" / "c.yaml"), ["downloads"])["ok"]
    for path in ("src/b.yaml", "downloads-2/x", "b.yaml", "downloads/../b.yaml"):
        assert convert(starter, path, ["downloads"])["code"] == "not-permitted"
    assert convert(starter, "b.yaml", [])["code"] == "not-permitted"
    assert sorted(path.name for path in starter.project.iterdir()) == ["downloads"]


def test_a_path_of_the_input_is_permitted_by_name() -> None:
    allowed = Permissions({"write": ["${input.outputDir}", "${input.missing}"]}, {"outputDir": "out"})
    assert allowed.write == ("out",)
    allowed.require_write("/project", "/project/out/file")
    with pytest.raises(ToolFailed):
        allowed.require_write("/project", "/project/file")


def test_missing_folders_on_the_way_to_a_declared_path_are_made(starter) -> None:
    declared = ["${input.outputPath}/.."]
    assert convert(starter, "a/b/c.yaml", declared)["ok"]
    assert convert(starter, "made/.git/hooks/c.yaml", declared)["code"] == "not-permitted"
    assert convert(starter, "a/d/c.yaml", ["a/b"])["code"] == "not-permitted"
    assert [path.name for path in (starter.project / "a").iterdir()] == ["b"]


@pytest.mark.parametrize(
    ("sidecar", "tool", "given"),
    [
        ("utility.local", "archive.create", {"output": HOOK + ".zip", "paths": ["a.txt"]}),
        ("utility.local", "archive.extract", {"archive": "a.zip", "outputDir": ".git/x"}),
        ("media.local", "audio.speak", {"text": "x", "path": ".git/hooks/a.wav"}),
        ("web.search", "web.download", {"url": "https://example.org/x", "path": HOOK}),
    ],
)
def test_each_tool_that_writes_refuses_before_it_does_anything(
    starter, sidecar: str, tool: str, given: dict[str, Any]
) -> None:
    (starter.project / "a.txt").write_text("a")
    starter.call("utility.local", "archive.create", {"output": "a.zip", "paths": ["a.txt"]})
    (starter.project / ".git").mkdir()
    permissions = {"network": True, "read": ["."], "write": ["."]}
    config = {"providerUrl": "https://example.org/speak"} if tool == "audio.speak" else {}
    if tool == "audio.speak":
        # Nothing is spoken for a file that cannot be written: the delegate would leave a mark.
        pytest.importorskip("flysidecars.media.speech")
        config = {}
        if not any(os.access(f"/usr/bin/{name}", os.X_OK) for name in ("espeak-ng", "say")):
            pytest.skip("no speech program is installed")
    answer = starter.call(sidecar, tool, given, permissions=permissions, config=config).answer
    assert (answer["ok"], answer["code"]) == (False, "not-permitted"), answer
    assert os.listdir(starter.project / ".git") == []


@pytest.mark.parametrize(
    ("sidecar", "tool", "given"),
    [
        ("web.search", "web.fetch", {"url": "https://example.org/"}),
        ("web.search", "web.request", {"url": "https://example.org/", "method": "GET"}),
        ("web.search", "web.download", {"url": "https://example.org/", "path": "x"}),
    ],
)
def test_without_the_network_nothing_is_requested(
    starter, sidecar: str, tool: str, given: dict[str, Any]
) -> None:
    answer = starter.call(sidecar, tool, given, permissions={"network": False, "write": ["."]}).answer
    assert (answer["ok"], answer["code"]) == (False, "unavailable")
    assert "does not declare the network" in answer["error"]


def test_an_ordinary_file_is_as_it_was(starter) -> None:
    answer = convert(starter, "x.yaml", ["."])
    assert answer["ok"], json.dumps(answer)
    data = (starter.project / "x.yaml").read_bytes()
    assert hashlib.sha256(data).hexdigest() == hashlib.sha256(b"{}\n").hexdigest()
