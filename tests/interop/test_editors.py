"""Language servers of editors complete and explain the keys of files by the published schemas."""

from __future__ import annotations

from pathlib import Path

import pytest

from kits.command_line import Desk
from kits.lsp_client import language_server
from kits.programs import node_tool

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
MODELINE = "# yaml-language-server: $schema=../../schemas/manifest.schema.json"
MANIFEST = f"""{MODELINE}
name: find
description: Finds.
kind: command
exec:
  command:
    entrypoint: ./find
    t
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A root as `flytui init` leaves it."""
    made = Desk(tmp_path / "root", tmp_path / "home")
    made.root.mkdir()
    (made.home / "run").mkdir(parents=True, mode=0o700)
    assert made.run("init").returncode == 0
    return made


def test_a_key_of_a_manifest_is_completed_and_explained(desk: Desk) -> None:
    command = [*node_tool("yaml-language-server"), "--stdio"]
    file = desk.root / "tools" / "manifests" / "find" / "tool.yml"
    file.parent.mkdir(parents=True)
    file.write_text(MANIFEST)
    with language_server(command, desk.root, {}) as server:
        server.tell(
            "workspace/didChangeConfiguration", {"settings": {"yaml": {"schemaStore": {"enable": False}}}}
        )
        server.open(file, "yaml")
        proposed = server.completions(file, 7, 5)
        assert "timeout_ms" in proposed
        assert "A call that takes longer is ended." in proposed["timeout_ms"]
        assert "One run of a program, without a shell." in server.hover(file, 5, 4)


def test_a_key_of_the_registry_is_completed_and_explained(desk: Desk) -> None:
    command = [*node_tool("vscode-json-language-server"), "--stdio"]
    file = desk.root / "tools" / "external.tools.jsonc"
    lines = file.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if '"permissions"' in line)
    lines.insert(at, '      "",')
    file.write_text("\n".join(lines))
    with language_server(command, desk.root, {"handledSchemaProtocols": ["file"]}) as server:
        server.open(file, "jsonc")
        proposed = server.completions(file, at, 7)
        assert "timeoutMs" in proposed
        assert "A call that takes longer is ended" in proposed["timeoutMs"]
        assert "What the program may touch" in server.hover(file, at + 1, 9)
