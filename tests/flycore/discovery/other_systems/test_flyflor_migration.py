"""What Flyflor and MCP clients left becomes entries, and none of their own files changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flycore.model.migration import Verdict
from flycore.offline.migrate import MigrationPlan, apply_migration, plan_migration
from flycore.registry.jsonc.parse import parse_jsonc
from flycore.registry.paths import RootPaths, find_paths

SECRET = "sk-live-0123456789abcdef"
REGISTRY = "tools/external.tools.jsonc"
LEGACY = ".flyflor/tools/external.tools.jsonc"
UTILITY = {
    "command": "bun",
    "cwd": "project",
    "config": {"lspCommand": "", "taskCommand": ""},
    "timeoutMs": 30000,
    "tools": ["file.hash", "archive.create"],
}


def registry(**sidecars: Any) -> str:
    return json.dumps({"schemaVersion": 1, "sidecars": sidecars})


def planned(tmp_path: Path, files: dict[str, str], *names: str) -> tuple[RootPaths, MigrationPlan]:
    """The plan for these files; those that begin with ~ are in the home of the person."""
    root, home = tmp_path / "root", tmp_path / "home"
    for name, text in files.items():
        file = home / name[2:] if name.startswith("~") else root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("{root}", str(root)), encoding="utf-8")
    root.mkdir(exist_ok=True)
    environ = {"HOME": str(home)}
    places = find_paths(str(root), None, environ, root)
    return places, plan_migration(places, environ, names) if names else plan_migration(places, environ)


def texts(base: Path, *, without: str = "") -> dict[str, str]:
    found = (path for path in sorted(base.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(base)): path.read_text() for path in found if not str(path).endswith(without)
    }


def entries(places: RootPaths) -> Any:
    value, problem = parse_jsonc((places.app_root / REGISTRY).read_text(), REGISTRY)
    assert problem is None
    return value["sidecars"]  # type: ignore[index, call-overload]  # an object of the registry


def again(tmp_path: Path) -> MigrationPlan:
    return planned(tmp_path, {})[1]


def verdicts(plan: MigrationPlan) -> dict[str, Verdict]:
    return {line.subject: line.verdict for line in plan.lines}


def test_what_an_installer_wrote_for_a_source_checkout_becomes_an_entry(tmp_path: Path) -> None:
    utility = {
        **UTILITY,
        "args": ["{root}/scripts/utility.sidecar.ts"],
        "env": {"API_TOKEN": SECRET, "LANG": "C"},
    }
    elsewhere = {**UTILITY, "args": ["/opt/flyflor/scripts/media.sidecar.ts"], "tools": ["vision.ocr"]}
    text = registry(
        **{"utility.local": utility, "media.local": elsewhere, "odd": {"command": "x", "more": 1}}
    )
    files = {"~/.flyflor/.config/tools/external.tools.jsonc": text, "~/.flyflor/.config/tools.jsonc": "{}"}
    places, plan = planned(tmp_path, files)
    before = texts(tmp_path, without=REGISTRY)
    assert verdicts(plan) == {
        "utility.local": Verdict.REWRITTEN,
        "media.local": Verdict.CANNOT,
        "odd": Verdict.REWRITTEN,
        "~/.flyflor/.config/tools.jsonc": Verdict.CANNOT,
    }
    assert apply_migration(places, plan).written == (REGISTRY,)
    made = entries(places)["utility.local"]
    assert (made["command"], made["args"]) == ("bun", ["./scripts/utility.sidecar.ts"])
    assert (made["dialect"], made["env"]) == ("flyflor", {"LANG": "C"})
    assert made["permissions"]["secrets"] == ["API_TOKEN"]
    assert made["permissions"]["fs"]["read"] == ["."]
    assert SECRET not in (places.app_root / REGISTRY).read_text()
    assert texts(tmp_path, without=REGISTRY) == before
    assert again(tmp_path).files == ()
    assert verdicts(again(tmp_path))["utility.local"] is Verdict.PRESENT


def test_the_older_registry_of_a_project_is_copied_whole_and_stays(tmp_path: Path) -> None:
    search = {"command": "./tools/packages/search-web/bin/flyflor", "args": ["xtool-sidecar", "web.search"]}
    own = {"command": "./bin/own", "tools": [{"name": "own.tool", "description": "x", "inputSchema": {}}]}
    text = registry(
        **{
            "web.search": {**search, "cwd": "app", "tools": ["web.search", "web.fetch"]},
            "own": own,
            "computer.use": {**search, "tools": ["computer.use"]},
        }
    )
    places, plan = planned(tmp_path, {LEGACY: text})
    assert verdicts(plan)["computer.use"] is Verdict.CANNOT
    apply_migration(places, plan)
    assert entries(places)["web.search"]["dialect"] == "flyflor"
    assert entries(places)["web.search"]["permissions"]["network"] is True
    assert entries(places)["own"] == own
    assert (places.app_root / LEGACY).read_text() == text
    assert again(tmp_path).files == ()


def test_a_migration_of_another_system_keeps_the_entries_of_the_older_registry(tmp_path: Path) -> None:
    files = {
        LEGACY: registry(**{"utility.local": UTILITY}),
        ".mcp.json": json.dumps({"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}),
    }
    places, plan = planned(tmp_path, files, "clients")
    apply_migration(places, plan)
    assert set(entries(places)) == {"time", "utility.local"}
    assert planned(tmp_path, {}, "ybs")[1].files == ()


def test_the_shared_registry_gets_the_dialect_and_nothing_else(tmp_path: Path) -> None:
    text = """{
  // Flyflor's installer wrote this
  "schemaVersion": 1,
  "sidecars": {
    "utility.local": {"command": "bun", "args": ["./scripts/utility.sidecar.ts"], "tools": ["file.hash"]},
    "mine": {"command": "./bin/mine", "tools": ["lsp.symbols"]}
  }
}
"""
    places, plan = planned(tmp_path, {REGISTRY: text})
    assert verdicts(plan) == {"utility.local": Verdict.REWRITTEN}
    apply_migration(places, plan)
    after = (places.app_root / REGISTRY).read_text()
    assert "// Flyflor's installer wrote this" in after
    assert entries(places)["utility.local"]["dialect"] == "flyflor"
    assert entries(places)["mine"] == {"command": "./bin/mine", "tools": ["lsp.symbols"]}
    assert verdicts(again(tmp_path)) == {"utility.local": Verdict.AS_IS}
    assert again(tmp_path).files == ()


def test_servers_of_clients_become_entries_without_their_secrets(tmp_path: Path) -> None:
    servers = {
        "time": {"command": "uvx", "args": ["mcp-server-time"]},
        "search": {"command": "npx", "args": ["-y", "search"], "env": {"SEARCH_KEY": SECRET}},
        "flytui": {"command": "flytui", "args": ["mcp"]},
        "broken": {"command": 7},
    }
    text = json.dumps({"mcpServers": servers})
    home = json.dumps({"mcpServers": {"everywhere": {"command": "uvx", "args": ["x"]}}})
    places, plan = planned(tmp_path, {".mcp.json": text, "~/.cursor/mcp.json": home})
    said = verdicts(plan)
    assert (said["flytui"], said["broken"], said["everywhere"]) == (
        Verdict.AS_IS,
        Verdict.CANNOT,
        Verdict.AS_IS,
    )
    apply_migration(places, plan)
    assert set(entries(places)) == {"time", "search"}
    assert entries(places)["search"]["permissions"]["secrets"] == ["SEARCH_KEY"]
    assert SECRET not in (places.app_root / REGISTRY).read_text()
    assert (places.app_root / ".mcp.json").read_text() == text
    assert again(tmp_path).files == ()


@pytest.mark.parametrize("text", ["[]", "{", '{"sidecars": []}', '{"sidecars": {"a": 1}}', "x" * 300_000])
def test_a_file_that_cannot_be_read_writes_nothing(tmp_path: Path, text: str) -> None:
    _, plan = planned(tmp_path, {"~/.flyflor/.config/tools/external.tools.jsonc": text, LEGACY: text})
    assert plan.files == ()
