"""Blocked tools are kept, and a list that cannot be relied on blocks everything."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from flycore.approval.desktop_control import DesktopControl
from flycore.approval.queue import ApprovalQueue
from flycore.approval.requests import QueueLimits
from flycore.approval.tool_blocks import EVERY_TOOL, ToolBlockStore
from flycore.model.approval import Answer
from flycore.model.enums import Choice, RequestState


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "blocks.json"


def test_a_block_outlives_the_kernel_until_it_is_lifted(path: Path) -> None:
    book = ToolBlockStore(path)
    assert book.all() == ()
    assert book.block("web.fetch", 5.0, "too loud") == ""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = ToolBlockStore(path)
    assert again.block_for("web.fetch").reason == "too loud"
    assert again.block_for("web.search") is None
    assert again.unblock("web.search") is None
    assert again.unblock("web.fetch").since == 5.0
    assert ToolBlockStore(path).all() == ()


@pytest.mark.parametrize("damage", ["text", "shape", "link", "writable", "folder", "huge"])
def test_a_list_that_cannot_be_relied_on_blocks_every_tool_until_a_person_says(
    path: Path, damage: str
) -> None:
    ToolBlockStore(path).block("web.fetch", 5.0)
    match damage:
        case "text":
            path.write_text("[{")
        case "shape":
            path.write_text('[{"tool": 7}]')
        case "link":
            path.rename(path.with_suffix(".real"))
            path.symlink_to(path.with_suffix(".real"))
        case "writable":
            path.chmod(0o622)
        case "folder":
            path.unlink()
            path.mkdir()
        case "huge":
            path.write_bytes(b" " * 2_000_000)
    book = ToolBlockStore(path)
    assert book.block_for("anything.at.all") is not None
    assert book.diagnostics
    assert book.block("web.search", 6.0)
    if damage == "folder":
        assert book.unblock(EVERY_TOOL) is None
        return
    assert book.unblock(EVERY_TOOL) is not None
    assert book.block_for("anything.at.all") is None
    assert not book.diagnostics
    assert ToolBlockStore(path).all() == ()


def test_no_flipped_bit_unblocks_a_tool_without_a_word(path: Path) -> None:
    ToolBlockStore(path).block("web.fetch", 5.0, "too loud")
    whole = path.read_bytes()
    for place in range(len(whole) - 1):
        for bit in range(8):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << bit)]) + whole[place + 1 :])
            assert ToolBlockStore(path).block_for("web.fetch") is not None, (place, bit)


def test_a_block_that_cannot_be_written_does_not_hold_and_says_so(tmp_path: Path) -> None:
    book = ToolBlockStore(tmp_path / "state" / "blocks.json")
    assert book.all() == ()
    (tmp_path / "state").write_text("a file where the folder should be")
    assert book.block("web.fetch", 1.0)
    assert book.block_for("web.fetch") is None


@pytest.mark.anyio
@pytest.mark.parametrize("tool", ["computer.keyboard", "another.tool"])
async def test_a_block_ends_approvals_that_nobody_has_fetched(clock, make_request, tool: str) -> None:
    queue = ApprovalQueue(clock, lambda event: None, QueueLimits(), DesktopControl(clock, lambda event: None))
    away = make_request("away", input={"text": "one"})
    assert (await queue.ask(away, patience=0)).state is RequestState.WAITING
    assert queue.decide("away", away.subject_digest, Answer(choice=Choice.APPROVE_ONCE)).accepted
    other = make_request("other", tool=tool, input={"text": "two"})
    await queue.ask(other, patience=0)
    assert queue.decide("other", other.subject_digest, Answer(choice=Choice.BLOCK)).accepted
    back = await queue.ask(make_request("back", input={"text": "one"}), patience=0)
    expected = RequestState.WAITING if tool == away.tool else RequestState.APPROVED
    assert back.state is expected
