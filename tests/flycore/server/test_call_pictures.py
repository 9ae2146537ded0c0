"""Images that calls made, asked for in process and over the socket."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

import anyio
import pytest
from PIL import Image

from flycore.client.client import connect_unix
from flycore.model.call import Caller
from flycore.server.local import LocalClient
from kits.kernel import Root, kernel_of, request, tool
from kits.unix_socket import served
from kits.values import pixel

pytestmark = pytest.mark.anyio

PAINTER = """#!/usr/bin/env python3
import json, os, shutil, sys
call = json.loads(sys.stdin.readline())
made = os.path.join(call["artifactDir"], "made.png")
shutil.copy(os.path.join(call["projectDir"], "tools", "source.png"), made)
print(json.dumps({"ok": True, "artifacts": [{"path": made, "mimeType": "image/png"}]}))
"""


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("paint", PAINTER, tool("paint.do"))
    root.policy({"tool": "paint.do", "decision": "allow", "because": "test"})
    out = io.BytesIO()
    Image.new("RGB", (640, 320), (10, 200, 30)).save(out, "PNG")
    (root.folder / "tools" / "source.png").write_bytes(out.getvalue())
    return root


async def test_the_person_sees_the_image_scaled_and_none_for_what_is_not_there(root: Root) -> None:
    async with kernel_of(root) as kernel:
        client = LocalClient(kernel, Caller(door="console", program="flytui"))
        result = await kernel.call(request(kernel, "paint.do"))
        assert result.error is None
        picture = await client.picture(result.call_id, 0)
        assert picture is not None
        assert (picture.width, picture.height, pixel(picture, 100, 100)) == (320, 160, (10, 200, 30))
        for call_id, index in ((result.call_id, 2), (result.call_id, -1), ("nobody", 0)):
            assert await client.picture(call_id, index) is None
        os.unlink(result.artifacts[0].path)
        assert await client.picture(result.call_id, 0) is None


async def test_a_file_swapped_for_a_link_or_a_pipe_is_not_followed(root: Root) -> None:
    secret = root.base / "secret.png"
    shutil.copy(root.folder / "tools" / "source.png", secret)
    async with kernel_of(root) as kernel:
        client = LocalClient(kernel, Caller(door="console", program="flytui"))
        result = await kernel.call(request(kernel, "paint.do"))
        made = result.artifacts[0].path
        folder = os.path.dirname(made)
        os.unlink(made)
        os.symlink(secret, made)
        assert await client.picture(result.call_id, 0) is None
        os.unlink(made)
        os.mkfifo(made)
        with anyio.fail_after(30):
            assert await client.picture(result.call_id, 0) is None
        shutil.rmtree(folder)
        os.symlink(root.base, folder)
        shutil.copy(secret, root.base / "made.png")
        assert await client.picture(result.call_id, 0) is None


async def test_an_agent_sees_the_pictures_of_its_own_calls_and_a_viewer_all(root: Root) -> None:
    async with served(root) as kernel:
        async with connect_unix(root.places.socket) as agent:
            own = await agent.call("paint.do", {})
            others = await kernel.call(request(kernel, "paint.do"))
            mine = await agent.picture(own.call_id, 0)
            assert mine is not None
            assert mine.width == 320
            assert await agent.picture(others.call_id, 0) is None
        async with connect_unix(root.places.socket, viewer=True) as viewer:
            assert await viewer.picture(others.call_id, 0) is not None
