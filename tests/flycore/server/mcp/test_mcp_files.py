"""What a call made, over MCP: images as images, other files by name, large outputs cut in their shape."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flycore.catalog.builtin import KNOWN
from flycore.model.call import Artifact, CallError, ToolResult
from flycore.model.enums import Code, Status
from flycore.server.mcp import media
from flycore.server.mcp.media import media_reader, media_type
from flycore.server.mcp.results import call_result, fit_to_limit, size_of
from kits.kernel import Root, kernel_of, tool
from kits.mcp_clients import ERAS, about, client_of, text_of
from kits.tables import each_row

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
MAKER = """#!/usr/bin/env python3
import json, os, sys
call = json.loads(sys.stdin.readline())
made = []
for name, text in call["input"]["files"].items():
    path = os.path.join(call["artifactDir"], name)
    with open(path, "wb") as file:
        file.write(text.encode("latin-1"))
    made.append({"path": path, "mimeType": "image/png"})
print(json.dumps({"ok": True, "artifacts": made}))
"""
BIG = """#!/usr/bin/env python3
import json, sys
call = json.loads(sys.stdin.readline())
print(json.dumps({"ok": True, "text": "x" * 50000, "rows": list(range(3000)), "n": 7}))
"""


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path)
    schema = {
        "type": "object",
        "properties": {"text": {"type": "string"}, "rows": {"type": "array"}, "n": {"const": 7}},
        "required": ["text", "rows", "n"],
    }
    made.sidecar("maker", MAKER, tool("maker.do"))
    made.sidecar("big", BIG, {**tool("big.do"), "resultLimit": 4096, "outputSchema": schema})
    made.policy(*({"tool": name, "decision": "allow", "because": "test"} for name in ("maker.do", "big.do")))
    return made


@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS)
async def test_images_are_handed_over_and_other_files_named(root: Root, era: str) -> None:
    files = {"shot.png": PIXEL.decode("latin-1"), "page.html": "<p>", "claims.png": "no image at all"}
    async with kernel_of(root) as kernel, client_of(root, kernel, era) as client:
        result = await client.call_tool("maker_do", {"files": files})
    pictures = [block for block in result.content if block.type == "image"]
    assert [(one.mime_type, base64.b64decode(one.data)) for one in pictures] == [("image/png", PIXEL)]
    assert all(name in text_of(result) for name in files)


@pytest.mark.anyio
async def test_an_image_that_is_too_large_or_was_swapped_is_only_named(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = root.base / "secret.png"
    secret.write_bytes(PIXEL)
    look = media_reader(root.places)
    async with kernel_of(root) as kernel, client_of(root, kernel, ERAS[0]) as client:
        result = await client.call_tool("maker_do", {"files": {"shot.png": PIXEL.decode("latin-1")}})
        path = about(result)["artifacts"][0]["path"]
        artifact = Artifact(path=path, mime_type="image/png", bytes=len(PIXEL))
        assert look(artifact, 1_000_000) is not None
        assert look(artifact, len(PIXEL) - 1) is None
        monkeypatch.setattr(media, "MAX_FILE_BYTES", len(PIXEL) - 1)
        again = await client.call_tool("maker_do", {"files": {"shot.png": PIXEL.decode("latin-1")}})
        assert [block.type for block in again.content].count("image") == 0
        monkeypatch.undo()
        os.unlink(path)
        os.symlink(secret, path)
        assert look(artifact, 1_000_000) is None
        os.unlink(path)
        os.mkfifo(path)
        assert look(artifact, 1_000_000) is None
        elsewhere = Artifact(path=str(secret), mime_type="image/png", bytes=len(PIXEL))
        assert look(elsewhere, 1_000_000) is None


@each_row(
    ("data", "kind"),
    [
        (PIXEL, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a..", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"<svg/>", None),
        (b"", None),
    ],
)
def test_what_an_image_is_its_first_bytes_say(data: bytes, kind: str | None) -> None:
    assert media_type(data) == kind


@pytest.mark.anyio
@pytest.mark.parametrize("era", ERAS)
async def test_a_large_output_is_cut_keeps_its_shape_and_says_so(root: Root, era: str) -> None:
    async with kernel_of(root) as kernel, client_of(root, kernel, era) as client:
        result = await client.call_tool("big_do", {})
    assert not result.is_error
    structured: Any = result.structured_content
    assert size_of(structured) <= 4096
    assert structured["n"] == 7
    assert structured["text"].endswith("…")
    assert 0 < len(structured["rows"]) < 3000
    assert "was cut" in text_of(result)
    assert about(result)["cut"] is True
    assert json.loads(text_of(result).partition("\n")[0]) == structured


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=60,
)


@given(VALUES, st.integers(16, 4000))
def test_whatever_is_cut_fits_and_what_fits_is_not_touched(output: Any, limit: int) -> None:
    before = json.dumps(output)
    cut = fit_to_limit(output, limit)
    assert json.dumps(output) == before
    assert size_of(output) > limit or cut is output
    assert size_of(cut) <= limit or isinstance(cut, str)


def test_an_output_of_too_many_keys_is_its_text_s_beginning_and_no_structure() -> None:
    keys = {f"k{number}": number for number in range(20_000)}
    done = ToolResult(status=Status.SUCCESS, tool="file.hash", sidecar="s", call_id="c", output=keys)
    result = call_result(done, KNOWN["file.hash"], lambda artifact, limit: None)
    assert not result.is_error
    assert result.structured_content is None
    assert "too large to keep the form of its schema" in text_of(result)
    assert len(text_of(result)) < 80_000


def test_details_of_an_error_are_cut_as_outputs_are() -> None:
    error = CallError(code=Code.FAILED, message="no", details={"code": "tool-error", "output": "x" * 500_000})
    result = ToolResult(status=Status.FAILED, tool="big.do", sidecar="big", call_id="1", error=error)
    told = call_result(result, None, lambda artifact, left: None)
    assert len(told.model_dump_json()) < 100_000
    assert told.meta is not None
    assert told.meta["flytui/result"]["error"]["details"]["code"] == "tool-error"
    assert len(error.details["output"]) == 500_000
