"""Taking a server over into the registry: what the person saw is written and trusted, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.described import Described, DescribedState, SourceKind
from kits.kernel import ECHO, Root, approver_of, kernel_of, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    made.sidecar("echo", ECHO)
    return made


def declare(root: Root, **servers: Any) -> None:
    (root.folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def server(kernel: Kernel, name: str) -> Described | None:
    found = kernel.catalog().described
    return next((item for item in found if item.kind is SourceKind.MCP_SERVER and item.id == name), None)


async def offered(kernel: Kernel, name: str) -> Described:
    return await until(lambda: (item := server(kernel, name)) and item.offer and item)  # type: ignore[no-any-return]  # any of them


async def test_what_was_shown_is_written_and_trusted_and_every_comment_stays(root: Root) -> None:
    file = root.folder / "tools/external.tools.jsonc"
    file.write_text(f"// mine\n{file.read_text()[:-1]}  // the end\n}}")
    before = file.read_text()
    declare(root, notes={"command": "notes-server", "env": {"NOTES_TOKEN": "hunter2"}})
    async with kernel_of(root) as kernel:
        item = await offered(kernel, "notes")
        assert item.offer is not None
        outcome = await approver_of(kernel).import_server(item.path, item.id, item.offer.digest)
        assert outcome.accepted, outcome.why_not
        view = kernel.catalog().sidecar("notes")
        assert view is not None
        assert view.trusted
        assert view.entry.raw == item.offer.entry
        assert not kernel.pending_trust()
        found = await until(lambda: (now := server(kernel, "notes")) and not now.offer and now)
        assert found.state is DescribedState.REGISTERED
    after = file.read_text()
    kept = iter(after)
    assert all(character in kept for character in before)
    assert "hunter2" not in after
    lines = [line for line in root.audit() if line.get("decision") == "imported"]
    assert [line["sidecar"] for line in lines] == ["notes"]
    assert "hunter2" not in json.dumps(root.audit())


async def test_nothing_is_written_for_a_file_that_says_something_else_by_now(root: Root) -> None:
    before = (root.folder / "tools/external.tools.jsonc").read_bytes()
    declare(root, notes={"command": "notes-server"})
    async with kernel_of(root) as kernel:
        item = await offered(kernel, "notes")
        assert item.offer is not None
        declare(root, notes={"command": "evil-server"})
        approver = approver_of(kernel)
        assert not (await approver.import_server(item.path, item.id, item.offer.digest)).accepted
        assert not (await approver.import_server(item.path, "other", item.offer.digest)).accepted
        assert not (await approver.import_server("else", item.id, item.offer.digest)).accepted
    assert (root.folder / "tools/external.tools.jsonc").read_bytes() == before


async def test_an_id_that_an_entry_has_is_not_taken_and_flytui_itself_is_never_offered(root: Root) -> None:
    declare(root, echo={"command": "x"}, flytui={"command": "flytui", "args": ["mcp"]})
    async with kernel_of(root) as kernel:
        taken = await until(lambda: server(kernel, "echo"))
        assert taken.offer is None
        assert taken.state is DescribedState.LISTED
        assert "echo" in taken.reasons[-1].message
        own = await until(lambda: server(kernel, "flytui"))
        assert own.state is DescribedState.ITSELF
        assert not (await approver_of(kernel).import_server(own.path, own.id, "")).accepted


async def test_a_change_shows_in_the_catalog_with_an_event_and_a_line_of_the_log(root: Root) -> None:
    async with kernel_of(root) as kernel:
        with kernel.bus.subscribe() as events:
            declare(root, later={"command": "x"})
            with anyio.fail_after(30):
                async for event in events:
                    if "mcp-server:later" in str(event.payload.get("names")):
                        break
        (root.folder / ".mcp.json").unlink()
        await until(lambda: server(kernel, "later") is None)
    told = [line["states"] for line in root.audit() if "states" in line]
    assert {"mcp-server:later": "listed"} in told
    assert {"mcp-server:later": "gone"} in told
