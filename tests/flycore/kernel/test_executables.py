"""Executables in folders: listed, trusted, asked for their schemas, called, and followed as they change."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.catalog import CapabilityView, SidecarView
from flycore.model.enums import Code, Effective, ReasonCode, SandboxState, Status
from kits.executables import (
    COUNT_BODY,
    COUNT_SCHEMA,
    ECHO_BODY,
    ECHO_SCHEMA,
    printing,
    program,
    project_tools,
    put,
    shell,
    user_tools,
)
from kits.kernel import Root, approve, approved_call, approver_of, kernel_of, request, until, waiting_ask

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def view(kernel: Kernel, name: str) -> CapabilityView | None:
    return kernel.catalog().capability(name)


def sidecar(kernel: Kernel, name: str) -> SidecarView | None:
    return kernel.catalog().sidecar(name)


async def described(kernel: Kernel, name: str) -> CapabilityView:
    """Wait until the tool is listed with its schema."""

    def found() -> CapabilityView | None:
        listed = view(kernel, name)
        return listed if listed is not None and listed.capability.definition else None

    listed: CapabilityView = await until(found)
    return listed


async def test_both_forms_are_asked_validated_and_called(root: Root) -> None:
    put(project_tools(root), "echo", program(ECHO_SCHEMA, ECHO_BODY))
    put(user_tools(root), "count", program(COUNT_SCHEMA, COUNT_BODY))
    async with kernel_of(root) as kernel:
        echo, count = await described(kernel, "echo"), await described(kernel, "count")
        assert (echo.source, count.source) == ("executable:project.echo", "executable:user.count")
        assert echo.stability.effective is Effective.AVAILABLE
        said = await approved_call(kernel, "echo", {"text": "hi"})
        assert said.output == {"result": "hi hi", "metadata": {"length": 5, "ratio": 0.5}}
        counted = await approved_call(kernel, "count", {"text": "four"})
        assert counted.output == {"letters": 4}
        for name, wrong in (("echo", {"times": 1}), ("count", {"text": "x", "more": 1})):
            refused = await kernel.call(request(kernel, name, wrong))
            assert refused.error is not None
            assert refused.error.code == Code.INVALID_INPUT


async def test_nothing_of_a_project_s_executable_runs_before_a_person_trusts_it(root: Root) -> None:
    mark = root.base / "ran"
    put(project_tools(root), "nosy", f"#!/bin/sh\ntouch {mark}\n")
    put(project_tools(root), "echo", program(ECHO_SCHEMA, ECHO_BODY))
    async with kernel_of(root, trusted=False) as kernel:
        listed = await until(lambda: view(kernel, "echo"))
        assert listed.stability.sandbox is SandboxState.DENIED
        assert listed.stability.reasons[0].code is ReasonCode.FOLDER_UNTRUSTED
        assert "tools/bin/echo" in listed.stability.reasons[0].message
        refused = await kernel.call(request(kernel, "echo", {"text": "hi"}))
        assert refused.error is not None
        assert refused.error.code == ReasonCode.FOLDER_UNTRUSTED
        waiting = {item.sidecar: item for item in kernel.pending_trust()}
        assert set(waiting) == {"project.nosy", "project.echo"}
        assert str(project_tools(root) / "echo") in "\n".join(waiting["project.echo"].lines)
        item = waiting["project.echo"]
        await approver_of(kernel).trust(((item.sidecar, item.digest),))
        await described(kernel, "echo")
        assert not mark.exists()
        assert not list(root.places.cache_dir.glob("nothing"))


async def test_the_second_start_asks_nobody(root: Root) -> None:
    asked = root.base / "data" / "asked"
    # What a question writes is gone with its sandbox, so the count comes from the log of the kernel's cache.
    put(user_tools(root), "echo", program(ECHO_SCHEMA, ECHO_BODY))
    async with kernel_of(root) as kernel:
        await described(kernel, "echo")
    cache = root.places.cache_dir / "schemas.json"
    first = cache.stat()
    assert not asked.exists()
    async with kernel_of(root) as kernel:
        listed = view(kernel, "echo")
        assert listed is not None
        assert listed.capability.definition, "the first catalog has the schema"
        assert listed.stability.effective is Effective.AVAILABLE
    again = cache.stat()
    assert (again.st_ino, again.st_mtime_ns) == (first.st_ino, first.st_mtime_ns)


async def test_a_name_in_the_schema_wins_and_the_file_s_name_is_an_alias(root: Root) -> None:
    put(user_tools(root), "say.py", program({**ECHO_SCHEMA, "name": "speak"}, ECHO_BODY))
    async with kernel_of(root) as kernel:
        await described(kernel, "speak")
        assert view(kernel, "say") is None
        by_file = await approved_call(kernel, "say", {"text": "hi"})
        assert (by_file.status, by_file.tool) == (Status.SUCCESS, "speak")
        await approver_of(kernel).block("speak", "no") if hasattr(approver_of(kernel), "block") else None


async def test_an_array_describes_several_tools_and_the_program_learns_which_is_called(root: Root) -> None:
    several = [{**ECHO_SCHEMA, "name": name} for name in ("upper", "lower")]
    body = "word = getattr(data['text'], os.environ['FLYTUI_TOOL_NAME'])()\n"
    body += "print(json.dumps({'success': True, 'result': word}))"
    put(user_tools(root), "case", program(several, body))
    async with kernel_of(root) as kernel:
        await described(kernel, "upper")
        results = [await approved_call(kernel, name, {"text": "Ab"}) for name in ("upper", "lower")]
        assert [result.output for result in results] == [{"result": "AB"}, {"result": "ab"}]
        missing = await kernel.call(request(kernel, "case", {"text": "Ab"}))
        assert missing.error is not None
        assert missing.error.code == Code.NOT_FOUND, "of several tools, the file's name stands for none"


async def test_the_environment_has_the_modes_and_no_secret(root: Root) -> None:
    body = "print(json.dumps({'success': True, 'result': dict(os.environ)}))"
    put(user_tools(root), "env", program({**ECHO_SCHEMA, "name": "env", "parameters": {}}, body))
    root.environ["SECRET_TOKEN"] = "not-for-tools"
    async with kernel_of(root) as kernel:
        await described(kernel, "env")
        result = await approved_call(kernel, "env")
    assert isinstance(result.output, dict)
    environment = result.output["result"]
    assert environment["FLYTUI_TOOL_MODE"] == environment["GIBSON_TOOL_MODE"] == "subprocess"
    assert environment["FLYTUI_TOOL_NAME"] == "env"
    assert "SECRET_TOKEN" not in environment


@pytest.mark.parametrize(
    ("schema", "on_call", "code", "output", "message"),
    [
        (ECHO_SCHEMA, """echo '{"success": false, "error": "no such file"}'""", "failed", None, "no such file"),
        (ECHO_SCHEMA, """echo '{"success": false, "error": "late"}'; exit 3""", "failed", None, "late"),
        (ECHO_SCHEMA, """echo oops; echo 'it broke' >&2""", "invalid-output", None, "it broke"),
        (ECHO_SCHEMA, "echo '[1]'", "invalid-output", None, "is not a JSON object"),
        (ECHO_SCHEMA, "exit 0", "invalid-output", None, "is empty"),
        (ECHO_SCHEMA, """echo '{"success": true, "result": 1}'; exit 4""", "exit", None, "exited with 4"),
        (COUNT_SCHEMA, """echo '{"success": false, "rows": 0}'""", "", {"success": False, "rows": 0}, ""),
        (COUNT_SCHEMA, "exit 0", "", {}, ""),
        (COUNT_SCHEMA, "echo 'no disk' >&2; exit 42", "exit", None, "no disk"),
        (COUNT_SCHEMA, "echo plain text", "invalid-output", None, "is not JSON"),
    ],
)
async def test_each_answer_is_read_by_the_form_of_the_schema(
    root: Root, schema, on_call, code, output, message
) -> None:
    put(user_tools(root), schema["name"], shell(printing(schema), f"cat >/dev/null; {on_call}"))
    async with kernel_of(root) as kernel:
        await described(kernel, schema["name"])
        result = await approved_call(kernel, schema["name"], {"text": "x"})
        assert result.output == output
        assert (result.error.code if result.error else "") == code
        assert message in (result.error.message if result.error else "")
        if code == "exit":
            assert result.error is not None
            assert result.error.details["exitCode"] == (42 if schema is COUNT_SCHEMA else 4)
