"""One masker over all declared secrets of the root: a sidecar that got hold of another one's secret."""

from __future__ import annotations

import math
from pathlib import Path

import anyio
import pytest

from flycore.model.approval import Answer
from flycore.model.call import Progress
from flycore.model.enums import Choice, Code
from flycore.model.json import MASK
from kits.kernel import ECHO, Root, approver_of, kernel_of, request, tool, until, waiting_ask

pytestmark = pytest.mark.anyio

SECRET = "tok-9f8e7d6c5b4a-live"
OTHERS = f"""#!/bin/sh
read -r request
echo '{{"event": "progress", "progress": 0.5, "message": "using {SECRET} now"}}'
echo 'trace {SECRET}' >&2
echo '{{"ok": true, "got": "{SECRET}", "{SECRET}": 1}}'
"""


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.environ["OWNERS_TOKEN"] = SECRET
    root.sidecar("owner", ECHO, permissions={"secrets": ["OWNERS_TOKEN"]})
    root.sidecar("other", OTHERS, tool("other.do"), tool("other.ask"))
    root.policy({"tool": "other.do", "decision": "allow", "because": "test"})
    return root


async def test_a_secret_of_another_entry_is_masked_in_result_progress_and_log(root: Root) -> None:
    seen: list[Progress] = []
    async with kernel_of(root) as kernel:
        result = await kernel.call(request(kernel, "other.do", {"q": SECRET}), seen.append)
        missing = await kernel.call(request(kernel, f"no.{SECRET}", {"q": SECRET}))
    assert result.output == {"got": MASK, MASK: 1}
    assert result.stderr_tail == f"trace {MASK}\n"
    assert f"using {MASK} now" in [step.message for step in seen]
    assert SECRET not in str(missing.error)
    assert SECRET not in "".join(map(str, root.audit()))


async def test_what_an_untrusted_entry_declares_masks_nothing(root: Root) -> None:
    root.environ["SHOWN"] = "/home/someone/project"
    root.sidecar("clone", ECHO, permissions={"secrets": ["SHOWN"]})
    async with kernel_of(root, trusted=False) as kernel:
        own = [(item.sidecar, item.digest) for item in kernel.pending_trust() if item.sidecar != "clone"]
        await approver_of(kernel).trust(tuple(own))
        await until(lambda: sum(view.trusted for view in kernel.catalog().sidecars) == 2)
        result = await kernel.call(request(kernel, "other.do", {"path": root.environ["SHOWN"]}))
        assert result.output == {"got": MASK, MASK: 1}
    called = [line for line in root.audit() if line["event"] == "TOOL_CALLED"]
    assert called[-1]["input"] == {"path": "/home/someone/project"}


async def test_an_edited_input_is_logged_like_any_other(root: Root) -> None:
    typed = {"password": "hunter2-hunter2", "token": SECRET, "size": "x"}
    large = {"password": "hunter2-hunter2", "text": "y" * 100_000}
    for edited in (typed, large):
        async with kernel_of(root) as kernel, anyio.create_task_group() as group:
            group.start_soon(kernel.call, request(kernel, "other.ask"))
            ask = (await waiting_ask(kernel)).request
            assert (await approver_of(kernel).edit(ask.id, ask.subject_digest, edited)).accepted
            ask = (await waiting_ask(kernel)).request
            once = Answer(choice=Choice.APPROVE_ONCE)
            assert (await approver_of(kernel).decide(ask.id, ask.subject_digest, once)).accepted
    small, big = (line for line in root.audit() if line["event"] == "APPROVAL_DECIDED")
    assert small["editedInput"]["password"].startswith(f"{MASK}(15:")
    assert small["editedInput"]["size"] == "x"
    assert "editedInput" not in big
    assert big["editedInputBytes"] > 100_000
    lines = "".join(map(str, root.audit()))
    assert "hunter2" not in lines
    assert SECRET not in lines


async def test_a_paused_caller_gets_the_pause_for_every_fault_of_its_calls(root: Root) -> None:
    async with kernel_of(root) as kernel:
        for _ in range(3):
            assert (await kernel.call(request(kernel, "no.such"))).error.code == Code.NOT_FOUND
        ends = [
            await kernel.call(request(kernel, name, given))
            for name, given in (("no.such", {}), ("other.do", {"n": math.nan}), ("other.do", {}))
        ]
    assert [result.error.code for result in ends] == [Code.PAUSED] * 3
    for result in ends:
        events = [line["event"] for line in root.audit() if line.get("callId") == result.call_id]
        assert events == ["TOOL_CALLED", "TOOL_EXECUTED"]
