"""A console that is attached and not paired: it sees, it may try a code, and it may be refused."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from flycore.client.attach import Attachment, attach_console
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer
from flycore.model.enums import Choice
from flycore.model.errors import NotPaired
from flycore.server.unix import serve_unix
from kits.attach import codes_of, shown_code
from kits.kernel import ECHO, PATIENCE, Root, approver_of, kernel_of, request, tool, waiting_ask

pytestmark = pytest.mark.anyio


@pytest.fixture
async def root(tmp_path: Path) -> Root:
    found = Root(tmp_path)
    found.sidecar("echo", ECHO, tool("echo.ask"), tool("echo.high", risk="high"))
    async with kernel_of(found):
        pass
    return found


@asynccontextmanager
async def attached_to(root: Root) -> AsyncIterator[tuple[Kernel, Attachment]]:
    async with (
        kernel_of(root) as kernel,
        serve_unix(kernel, root.places.socket),
        attach_console(root.places) as attachment,
    ):
        yield kernel, attachment


async def test_a_viewer_sees_what_waits_without_its_letter_and_decides_after_its_code(root: Root) -> None:
    async with attached_to(root) as (kernel, attachment), anyio.create_task_group() as group:
        group.start_soon(kernel.call, request(kernel, "echo.high"))
        shown = (await waiting_ask(kernel)).request
        [seen] = await attachment.client.asks()
        assert seen.request.letter == ""
        no = Answer(choice=Choice.DENY)
        early = await attachment.approver.decide(shown.id, shown.subject_digest, no)
        assert not early.accepted
        assert "pairing code" in early.why_not
        with codes_of(kernel) as events:
            await attachment.request_code()
            await attachment.pair(await shown_code(events))
        [seen] = await attachment.client.asks()
        assert seen.request.letter == shown.letter
        assert (await attachment.approver.decide(shown.id, shown.subject_digest, no)).accepted


async def test_a_wrong_code_says_how_many_tries_are_left_and_after_three_the_code_is_no_longer_shown(
    root: Root,
) -> None:
    async with attached_to(root) as (kernel, attachment):
        with codes_of(kernel) as events:
            await attachment.request_code()
            for left in ("tries left: 2", "tries left: 1", "now invalid"):
                with pytest.raises(NotPaired, match=left):
                    await attachment.pair("22222222")
            with anyio.fail_after(PATIENCE):
                async for event in events:
                    if event.type == "console.refused":
                        break
            assert event.payload["pid"] == os.getpid()
        assert not await approver_of(kernel).refuse_pairing(os.getpid())
        await attachment.request_code()
        with pytest.raises(NotPaired, match="tries left: 2"):
            await attachment.pair("22222222")


async def test_a_refused_console_cannot_use_its_code_and_may_ask_for_another(root: Root) -> None:
    async with attached_to(root) as (kernel, attachment):
        with codes_of(kernel) as events:
            await attachment.request_code()
            code = await shown_code(events)
        assert await approver_of(kernel).refuse_pairing(os.getpid())
        assert not await approver_of(kernel).refuse_pairing(os.getpid())
        with pytest.raises(NotPaired, match="refused"):
            await attachment.pair(code)
        with codes_of(kernel) as events:
            await attachment.request_code()
            await attachment.pair(await shown_code(events))
        assert not await approver_of(kernel).refuse_pairing(os.getpid())
    refused = [line for line in root.audit() if line["event"] == "CONSOLE_REFUSED"]
    assert [line["reason"] for line in refused] == ["refused", "none"]
    assert code not in str(root.audit())


async def test_a_console_that_leaves_before_it_is_paired_takes_its_code_along(root: Root) -> None:
    async with kernel_of(root) as kernel, serve_unix(kernel, root.places.socket):
        with codes_of(kernel) as events:
            async with attach_console(root.places) as attachment:
                await attachment.request_code()
                await shown_code(events)
            async for event in events:
                if event.type == "console.left":
                    break
            assert event.payload["pid"] == os.getpid()
        assert not await approver_of(kernel).refuse_pairing(os.getpid())
