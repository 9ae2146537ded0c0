"""Large inputs: bounded before anything is done with them, and handled beside the event loop."""

from __future__ import annotations

import json
import os
import resource
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.catalog import check_process, schemas
from flycore.model import large_values
from flycore.model.enums import Code, ReasonCode, Status
from flycore.model.json import JsonObject
from kits.kernel import ECHO, Root, approved_call, kernel_of, request, tool

pytestmark = pytest.mark.anyio

ALLOW = {"tool": "*", "decision": "allow", "because": "test"}
NUMBERS: JsonObject = {"type": "object", "properties": {"a": {"items": {"type": "integer"}}}}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


async def test_an_input_above_the_limit_does_not_run(root: Root) -> None:
    root.policy(ALLOW)
    root.sidecar("echo", ECHO)
    root.sidecar("wide", ECHO, maxInputBytes=2_000_000)
    root.sidecar("narrow", ECHO, maxInputBytes=100_000)
    async with kernel_of(root) as kernel:

        async def called(name: str, size: int) -> Any:
            return await kernel.call(request(kernel, name, {"text": "x" * size}))

        assert (await called("echo.do", 1_000_000)).status is Status.SUCCESS
        refused = await called("echo.do", 1_100_000)
        assert (await called("wide.do", 1_100_000)).status is Status.SUCCESS
        assert (await called("narrow.do", 110_000)).error.code == Code.INVALID_INPUT
    assert refused.error.code == Code.INVALID_INPUT
    assert "maxInputBytes" in refused.error.hint
    ended = [line for line in root.audit() if line.get("callId") == refused.call_id]
    assert [line["event"] for line in ended] == ["TOOL_CALLED", "TOOL_EXECUTED"]


async def test_letters_of_other_scripts_count_by_their_bytes(root: Root) -> None:
    root.policy(ALLOW)
    root.sidecar("echo", ECHO)
    async with kernel_of(root) as kernel:
        result = await kernel.call(request(kernel, "echo.do", {"text": "語" * 300_000}))
    assert result.status is Status.SUCCESS


async def test_a_person_approves_a_large_input_as_it_is(root: Root) -> None:
    root.sidecar(
        "echo", "#!/bin/sh\nwc -c >size\nprintf '{\"ok\": true}\\n'\n", tool("echo.do", inputSchema=NUMBERS)
    )
    async with kernel_of(root) as kernel:
        result = await approved_call(kernel, "echo.do", {"a": [1] * 60_000, "b": "x" * 500_000})
    assert result.status is Status.SUCCESS
    assert int((root.folder / "size").read_text()) > 600_000


async def test_checks_of_large_inputs_are_made_beside_the_loop(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the check of one caller's input goes on, another caller's call is answered."""
    root.policy(ALLOW)
    root.sidecar("echo", ECHO, tool("echo.do", inputSchema=NUMBERS))
    root.sidecar("other", ECHO)
    checked: list[bool] = []
    original: Callable[..., Any] = schemas.check_output
    answered = anyio.Event()

    def slow(schema: JsonObject, value: Any) -> Any:
        if large_values.is_large(value):
            # In the event loop's thread this would never come back: it waits for what the loop does.
            anyio.from_thread.run(answered.wait)
            checked.append(True)
        return original(schema, value)

    monkeypatch.setattr(schemas, "check_output", slow)
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        found: list[Any] = []

        async def large() -> None:
            found.append(await kernel.call(request(kernel, "echo.do", {"a": ["x"] * 20_000})))

        group.start_soon(large)
        assert (await kernel.call(request(kernel, "other.do"))).status is Status.SUCCESS
        answered.set()
    assert checked
    assert found[0].error.code == Code.INVALID_INPUT
    assert len(found[0].error.details["violations"]) <= 101


async def test_no_check_in_a_process_is_waited_for_on_the_loop(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a value that is not large, whether it fits is found out on the loop, but perhaps not why not."""
    root.policy(ALLOW)
    answer = json.dumps({"ok": True, "a": ["x"] * 4_000})
    root.sidecar("echo", ECHO, tool("echo.do", inputSchema=NUMBERS))
    root.sidecar(
        "told", f"#!/bin/sh\nread -r request\necho '{answer}'\n", tool("told.do", outputSchema=NUMBERS)
    )
    threads: list[int] = []
    original: Callable[..., Any] = check_process.check_in_process

    def check(schema: JsonObject, value: Any) -> Any:
        threads.append(threading.get_ident())
        return original(schema, value)

    monkeypatch.setattr(check_process, "check_in_process", check)
    async with kernel_of(root) as kernel:
        failed = await kernel.call(request(kernel, "echo.do", {"a": ["x"] * 4_000}))
        assert failed.error is not None
        assert len(failed.error.details["violations"]) == 101
        warned = await kernel.call(request(kernel, "told.do"))
        assert len(warned.warnings) > 100
    assert threads
    assert threading.get_ident() not in threads


async def test_without_descriptors_a_call_names_them_and_its_caller_is_not_paused(root: Root) -> None:
    root.policy(ALLOW)
    root.sidecar("echo", ECHO)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with kernel_of(root) as kernel:
        caller = request(kernel, "echo.do").caller
        with ExitStack() as stack:
            highest = max(int(name) for name in os.listdir("/proc/self/fd"))
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
            with suppress(OSError):
                while True:
                    stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
            try:
                ended = [await kernel.call(request(kernel, "echo.do", caller=caller)) for _ in range(6)]
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        # The program may not even be looked at: then it could not be found, with the same remedy.
        codes = {result.error.code for result in ended if result.error is not None}
        assert codes <= {Code.SPAWN, ReasonCode.COMMAND_NOT_FOUND}
        said = [result.error.message for result in ended if result.error]
        assert all("descriptor" in text or "Too many open files" in text for text in said)
        assert all(result.error and "ulimit -n" in result.error.hint for result in ended)
        assert kernel.questions() == ()
        assert (await kernel.call(request(kernel, "echo.do", caller=caller))).status is Status.SUCCESS
