"""Sidecars in the form of Flyflor's programs: each of their tools acts, or says that it cannot. What was done
is looked at itself: a file, what a server received."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.call import ToolResult
from flycore.model.enums import Code, Effective, ReasonCode, Status
from flycore.model.json import digest
from kits.foreign_sidecars import DELEGATE, MEDIA, UTILITY, WEB, program
from kits.kernel import Root, answered_call, approve, kernel_of, request, until
from kits.web_servers import Talk, serving

pytestmark = pytest.mark.anyio
ALLOW = {"tool": "*", "decision": "allow", "because": "test"}


def root_with(base: Path, tools: tuple[str, ...], **entry: Any) -> Root:
    root = Root(base)
    delegate = root.folder / "tools" / "delegate"
    delegate.write_text(DELEGATE)
    delegate.chmod(0o755)
    root.sidecar("theirs", program(), *tools, **{"dialect": "flyflor", "probe": {"mode": "off"}, **entry})
    root.policy(ALLOW)
    return root


def sent(root: Root) -> dict[str, Any]:
    """The request that the program got last."""
    lines = (root.folder / "requests.jsonl").read_text().splitlines()
    last: dict[str, Any] = json.loads(lines[-1])
    return last


async def call(kernel: Kernel, tool: str, input: dict[str, Any]) -> ToolResult:
    return await answered_call(kernel, lambda ask: approve(kernel, ask), tool, input)


async def done(kernel: Kernel, tool: str, input: dict[str, Any]) -> dict[str, Any]:
    """The output of a call that has to succeed, without a warning."""
    result = await kernel.call(request(kernel, tool, input))
    assert (result.status, result.warnings) == (Status.SUCCESS, ()), result
    assert isinstance(result.output, dict)
    return result.output


async def test_files_are_hashed_packed_and_converted(tmp_path: Path) -> None:
    root = root_with(tmp_path, UTILITY)
    (root.folder / "a.txt").write_text("content")
    async with kernel_of(root) as kernel:
        view = kernel.catalog().capability("archive.create")
        assert view is not None
        assert (view.stability.effective, view.capability.dialect) == (Effective.AVAILABLE, "flyflor")
        found = await done(kernel, "file.hash", {"path": "a.txt"})
        assert found["digest"] == hashlib.sha256(b"content").hexdigest()
        await done(kernel, "archive.create", {"paths": ["a.txt"], "output": "a.tar.gz"})
        with tarfile.open(root.folder / "a.tar.gz") as packed:
            assert packed.getnames() == ["a.txt"]
        await done(kernel, "archive.extract", {"archive": "a.tar.gz", "outputDir": "out"})
        assert (root.folder / "out" / "a.txt").read_text() == "content"
        await done(
            kernel, "data.convert", {"from": "text", "to": "json", "input": "[1]", "outputPath": "b.json"}
        )
        assert json.loads((root.folder / "b.json").read_text()) == [1]
        # What these programs would ignore, or do otherwise than asked, is refused before they start.
        before = sent(root)
        for tool, given in (
            ("archive.create", {"paths": ["a.txt"], "output": "a.zip"}),
            ("archive.extract", {"archive": "a.zip", "outputDir": "out"}),
            ("data.convert", {"from": "json", "to": "json", "path": "b.json"}),
            ("data.convert", {"from": "csv", "to": "json", "input": "a"}),
        ):
            refused = await kernel.call(request(kernel, tool, given))
            assert refused.error is not None
            assert (refused.status, refused.error.code) == (Status.FAILED, Code.INVALID_INPUT)
        assert sent(root) == before


async def test_delegates_of_its_config_do_tasks_and_answer_for_it(tmp_path: Path) -> None:
    config = {"taskCommand": str(tmp_path / "project/tools/delegate"), "lspCommand": "", "lspArgs": []}
    root = root_with(tmp_path, UTILITY, config=config)
    async with kernel_of(root) as kernel:
        found = await done(kernel, "task.background", {"task": "make 'the docs'"})
        assert (found["id"], found["state"]) == ("t1", "running")
        assert (root.folder / "task.txt").read_text() == "make\nthe docs"
        assert sent(root)["config"] == config, "a foreign program's own config is handed on as it is"
        lost = await kernel.call(request(kernel, "lsp.symbols", {"path": "a.py"}))
        assert lost.status is Status.UNAVAILABLE
        reason = await until(lambda: _reasons(kernel, "lsp.symbols"))
        assert reason[0].code is ReasonCode.ANSWERED_UNAVAILABLE


def _reasons(kernel: Kernel, tool: str) -> tuple[Any, ...]:
    view = kernel.catalog().capability(tool)
    return () if view is None else view.stability.reasons


async def test_media_go_to_the_program_or_the_server_of_its_config(tmp_path: Path) -> None:
    delegate = {"command": str(tmp_path / "project/tools/delegate")}
    bodies: list[dict[str, Any]] = []

    def respond(talk: Talk) -> None:
        bodies.append(json.loads(talk.body))
        talk.json({"ok": True, "text": "seen by the server"})

    with serving(respond) as web:
        config = {
            "providerUrl": f"{web.url}/media",
            "localCommands": {"vision.ocr": delegate, "audio.speak": delegate},
        }
        root = root_with(tmp_path, MEDIA, config=config, permissions=_network(tmp_path))
        (root.folder / "a.png").write_bytes(b"1234")
        async with kernel_of(root) as kernel:
            read = await done(kernel, "vision.ocr", {"path": "a.png"})
            assert (read["text"], read["engine"]) == ("4 bytes were read", "local")
            seen = await done(kernel, "vision.analyze", {"imagePath": "a.png"})
            assert seen["text"] == "seen by the server"
            assert bodies[-1]["input"]["imagePath"] == "a.png"
            spoken = await done(kernel, "audio.speak", {"text": "hello"})
            assert spoken["spoken"] is True
            assert (root.folder / "said.txt").read_text() == "hello"
            await done(kernel, "audio.transcribe", {"path": "a.png"})
            assert bodies[-1]["input"] == {"audioPath": "a.png"}


def _network(base: Path) -> dict[str, Any]:
    return {"network": True, "fs": {"write": [str(base)]}}


async def test_the_web_is_searched_and_read(tmp_path: Path) -> None:
    rows = [{"title": f"t{n}", "url": f"https://a.example/{n}", "snippet": "s"} for n in range(5)]
    page = b"<html><title>Home</title><body>" + b"word " * 10_000 + b"</body></html>"

    def respond(talk: Talk) -> None:
        body = json.dumps(rows).encode() if talk.path.startswith("/search") else page
        talk.answer(body, content_type="text/html")

    with serving(respond) as web:
        config = {"providers": [{"kind": "generic", "endpoint": f"{web.url}/search"}]}
        root = root_with(tmp_path, WEB, config=config, permissions=_network(tmp_path))
        async with kernel_of(root) as kernel:
            found = await done(kernel, "web.search", {"query": "a", "count": 2})
            assert [row["title"] for row in found["results"]] == ["t0", "t1"]
            both = await kernel.call(request(kernel, "web.search", {"query": "a", "count": 2, "limit": 2}))
            assert both.error is not None
            assert both.error.code == Code.INVALID_INPUT
            whole = await done(kernel, "web.fetch", {"url": f"{web.url}/"})
            assert (len(whole["text"]), whole["truncated"]) == (len(page), False)
            cut = await done(kernel, "web.fetch", {"url": f"{web.url}/", "maxChars": 20})
            assert cut["text"] == "<html><title>Home</t"
            await done(kernel, "web.download", {"url": f"{web.url}/", "path": "page.html"})
            assert (root.folder / "page.html").read_bytes() == page


async def test_both_forms_of_an_input_have_one_digest_and_one_card(tmp_path: Path) -> None:
    root = root_with(tmp_path, MEDIA)
    root.policy({"tool": "*", "decision": "ask", "because": "test"})
    shown: list[tuple[str, str]] = []
    async with kernel_of(root) as kernel:

        async def note(ask: Any) -> None:
            shown.append((ask.request.input_json, digest(ask.request.subject.input)))
            await approve(kernel, ask)

        for given in ({"path": "a.png"}, {"imagePath": "a.png"}):
            await answered_call(kernel, note, "vision.ocr", given)
    assert shown[0] == shown[1]
    assert json.loads(shown[0][0]) == {"path": "a.png"}


async def test_a_program_may_name_its_dialect_itself(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.sidecar(
        "theirs", program({"dialect": "flyflor"}), *MEDIA, probe={"mode": "request", "timeoutMs": 20_000}
    )
    async with kernel_of(root) as kernel:
        view = await until(lambda: _named(kernel, "audio.speak"))
        assert view.stability.effective is Effective.AVAILABLE


def _named(kernel: Kernel, tool: str) -> Any:
    view = kernel.catalog().capability(tool)
    return view if view is not None and view.capability.dialect == "flyflor" else None
