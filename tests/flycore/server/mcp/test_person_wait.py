"""How long a call waits for a person fits the client that makes it."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from mcp.client import Client
from mcp_types import Implementation

from flycore.model.diagnostics import Diagnostic
from flycore.registry.settings import Settings, load_settings
from flycore.server.local import LocalClient
from flycore.server.mcp import person_wait
from flycore.server.mcp.media import media_reader
from flycore.server.mcp.person_wait import LIMITS_FILE, TO_THE_END_MS, PersonWait, wait_ms_of
from flycore.server.mcp.server import build_server
from kits.kernel import ECHO, Root, a_caller, approve, kernel_of, tool, waiting_ask
from kits.mcp_clients import OLD, ProgressRecorder, about
from kits.tables import each_row


@each_row(
    ("client", "has_progress", "settings_ms", "wait_ms"),
    [
        ("claude-code", True, 25_000, TO_THE_END_MS),
        ("claude-code", False, 25_000, 25_000),
        ("", False, 25_000, 25_000),
        ("mcp", False, 25_000, 4_000),
        ("mcp", False, 1_000, 1_000),
        ("mcp", True, 25_000, TO_THE_END_MS),
        ("mcp-inspector", False, 25_000, 25_000),
        ("codex-mcp-client", True, 25_000, 570_000),
        ("gemini-cli-mcp-client-flytui", True, 25_000, 570_000),
    ],
)
def test_the_wait_of_a_client(client: str, has_progress: bool, settings_ms: int, wait_ms: int) -> None:
    assert wait_ms_of(client, has_progress=has_progress, settings_ms=settings_ms) == wait_ms


def test_every_row_of_the_file_has_its_reason() -> None:
    for row in json.loads(LIMITS_FILE.read_text()):
        assert set(row) == {"client", "seconds", "despiteProgress", "why"}
        assert row["seconds"] > 0


@pytest.mark.anyio
async def test_what_a_person_gives_counts_before_all_else(tmp_path: Path) -> None:
    assert await PersonWait(tmp_path, 3).wait_ms("mcp", has_progress=True) == 3_000
    (tmp_path / "config.jsonc").write_text('{"approvals": {"inlineWaitMs": 7}}')
    assert await PersonWait(tmp_path).wait_ms("a", has_progress=False) == 7


@pytest.mark.anyio
async def test_the_settings_are_read_after_a_change_and_not_at_each_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []

    def counted(folder: Path) -> tuple[Settings, tuple[Diagnostic, ...]]:
        reads.append(folder)
        return load_settings(folder)

    monkeypatch.setattr(person_wait, "load_settings", counted)
    file, wait = tmp_path / "config.jsonc", PersonWait(tmp_path)
    for content, wait_ms in (
        ("", None),
        ('{"approvals": {"inlineWaitMs": 7}}', 7),
        ("{ }", None),
        ("", None),
    ):
        if content:
            file.write_text(content)
        else:
            file.unlink(missing_ok=True)
        before = len(reads)
        found = {await wait.wait_ms("a", has_progress=False) for _ in range(3)}
        assert found == {wait_ms or Settings().inline_wait_ms}
        assert len(reads) == before + 1


@pytest.mark.anyio
async def test_a_client_with_a_progress_token_waits_until_a_person_decides(tmp_path: Path) -> None:
    root = Root(tmp_path)
    settings = root.base / "config" / "flytui"
    root.sidecar("back", ECHO, tool("back.ask", "high"))
    root.policy({"tool": "back.*", "decision": "ask", "because": "test"})
    (settings / "config.jsonc").write_text('{"approvals": {"inlineWaitMs": 0}}')
    told = ProgressRecorder()
    async with kernel_of(root) as kernel:
        server = build_server(
            LocalClient(kernel, a_caller()), media_reader(root.places), PersonWait(settings)
        )
        info = Implementation(name="claude-code", version="2")
        async with Client(server, mode=OLD, client_info=info) as client, anyio.create_task_group() as group:

            async def decide() -> None:
                await approve(kernel, await waiting_ask(kernel))

            pending = await client.call_tool("back_ask", {})
            assert about(pending)["error"]["code"] == "approval-pending"
            group.start_soon(decide)
            done = await client.call_tool("back_ask", {}, progress_callback=told)
            assert about(done)["status"] == "success", done
