"""A call whose request finds the queue full: an answer of its own, which is no person's refusal."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from flycore.model.enums import Code, Status
from kits.kernel import ECHO, PATIENCE, Root, a_caller, kernel_of, request, waiting_ask

pytestmark = pytest.mark.anyio


async def test_the_sixth_request_of_a_caller_has_a_code_and_an_exit_code_of_its_own(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO)
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(kernel.call, request(kernel, "echo.do", {"n": number}))
        await waiting_ask(kernel, 5)
        with anyio.fail_after(PATIENCE):
            full = await kernel.call(request(kernel, "echo.do", {"n": 5}))
        assert kernel.status().turned_away == 1
        group.start_soon(kernel.call, request(kernel, "echo.do", {"n": 6}, caller=a_caller("other", 7)))
        await waiting_ask(kernel, 6)
        group.cancel_scope.cancel()
    assert full.error is not None
    assert (full.status, full.error.code, full.exit_status) == (Status.DENIED, Code.QUEUE_FULL, 10)
    assert "5 requests of yours already wait for a person" in full.error.message
    assert "nobody has decided about this call" in full.error.message
    assert "or by itself within 10 minutes" in full.error.hint
    assert "in 10 seconds at the earliest" in full.error.hint
    assert full.error.details["waiting"] == 5
    assert full.error.details["retryAfterMs"] == 10_000
    assert 0 < float(str(full.error.details["freeInSeconds"])) <= 600
    [line] = [line for line in root.audit() if line.get("code") == Code.QUEUE_FULL and "tookMs" in line]
    assert "decidedBy" not in line
    assert "choice" not in line


async def test_turned_away_calls_are_no_denials_of_a_person(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.sidecar("echo", ECHO)
    root.settings(approvals={"queuePerCaller": 1})
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        group.start_soon(kernel.call, request(kernel, "echo.do", {"n": 0}))
        await waiting_ask(kernel)
        codes = []
        for _ in range(6):
            with anyio.fail_after(PATIENCE):
                done = await kernel.call(request(kernel, "echo.do", {"n": 1}))
            codes.append(done.error and done.error.code)
        assert codes == [Code.QUEUE_FULL] * 6
        assert kernel.questions() == ()
        group.cancel_scope.cancel()
