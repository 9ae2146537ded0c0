"""The registry file as a command edits it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flycore.offline.files import read_registry, set_enabled
from flycore.registry.paths import REGISTRY_FILE, RootPaths, find_paths


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RootPaths:
    environ = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "run"), "PATH": "/usr/bin:/bin"}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    app = tmp_path / "app"
    (app / "tools").mkdir(parents=True)
    tool = {"name": "my.echo", "description": "Says it.", "inputSchema": {"type": "object"}}
    tool |= {"approvalClass": "execute", "risk": "medium"}
    entry = {"command": "flytui-sidecar", "args": ["mock.echo"], "tools": [tool]}
    (app / REGISTRY_FILE).write_text(json.dumps({"schemaVersion": 2, "sidecars": {"one": entry}}))
    return find_paths(str(app), None, environ, tmp_path)


def test_an_entry_is_switched_in_its_file(places: RootPaths) -> None:
    def outcome(sidecar: str, enabled: bool) -> tuple[str, bool]:
        made = set_enabled(places, {}, sidecar, enabled, "" if enabled else "noisy")
        return made.outcome, made.enabled

    assert outcome("one", True) == ("unchanged", True)
    assert outcome("one", False) == ("switched", False)
    entry = read_registry(places, {}).entry("one")
    assert entry is not None
    assert entry.disabled_reason == "noisy"
    assert outcome("two", True) == ("unknown", False)
    (places.app_root / REGISTRY_FILE).write_text("{")
    assert outcome("one", True) == ("refused", False)
