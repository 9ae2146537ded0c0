"""Executables in folders: listed, trusted, asked for their schemas, called, and followed as they change."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer, Ask
from flycore.model.catalog import CapabilityView, SidecarView
from flycore.model.enums import Choice, Code, Effective, ReasonCode, SandboxState, Status
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
from kits.kernel import (
    Root,
    answered_call,
    approved_call,
    approver_of,
    kernel_of,
    processes_of,
    request,
    until,
    waiting_ask,
)

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
        assert (count.capability.version, count.capability.tags) == ("1.2.0", ("text",))
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
        assert view(kernel, "nosy").stability.sandbox is SandboxState.DENIED


async def test_the_second_start_asks_nobody(root: Root) -> None:
    put(user_tools(root), "echo", program(ECHO_SCHEMA, ECHO_BODY))
    async with kernel_of(root) as kernel:
        await described(kernel, "echo")
    cache = root.places.cache_dir / "schemas.json"
    first = cache.stat()
    async with kernel_of(root) as kernel:
        listed = view(kernel, "echo")
        assert listed is not None
        assert listed.capability.definition, "the first catalog has the schema"
        assert listed.stability.effective is Effective.AVAILABLE
    # An answer holds the time of its question, so that each question writes the file anew.
    again = cache.stat()
    assert (again.st_ino, again.st_mtime_ns) == (first.st_ino, first.st_mtime_ns)


async def test_a_name_in_the_schema_wins_and_the_file_s_name_is_an_alias(root: Root) -> None:
    put(user_tools(root), "say.py", program({**ECHO_SCHEMA, "name": "speak"}, ECHO_BODY))
    async with kernel_of(root) as kernel:
        await described(kernel, "speak")
        assert view(kernel, "say") is None
        by_file = await approved_call(kernel, "say", {"text": "hi"})
        assert (by_file.status, by_file.tool) == (Status.SUCCESS, "speak")
        started = [line for line in root.audit() if line["event"] == "TOOL_STARTED"]
        assert [line["tool"] for line in started] == ["speak"]

        async def block(ask: Ask) -> None:
            answer = Answer(choice=Choice.BLOCK, reason="no")
            await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, answer)

        await answered_call(kernel, block, "say", {"text": "hi"})
        for name in ("say", "speak"):
            refused = await kernel.call(request(kernel, name, {"text": "hi"}))
            assert refused.error is not None
            assert refused.error.code == Code.BLOCKED


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
        (
            ECHO_SCHEMA,
            """echo '{"success": false, "error": "no such file"}'""",
            "failed",
            None,
            "no such file",
        ),
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


async def test_a_tool_in_a_sub_folder_that_reads_nothing_and_answers_with_much(root: Root) -> None:
    schema = {"name": "numbers", "description": "Counts.", "output_schema": {"type": "object"}}
    answer = "printf '{\"all\": [0'; seq -s '' -f ',%g' 1 9999; printf ']}'"
    put(user_tools(root), "net/deep/tool.sh", shell(printing({**schema, "input_schema": None}), answer))
    async with kernel_of(root) as kernel:
        listed = await described(kernel, "numbers")
        assert listed.capability.input_schema == {}
        result = await approved_call(kernel, "numbers", {"unread": "x" * 500_000})
        assert result.output == {"all": list(range(10_000))}


UNKNOWN = {
    "acts instead": ("""cat; touch acted; echo done""", "printed something that"),
    "prints nothing": ("exit 0", "printed nothing"),
    "prints no object": ("echo '[1]'", "is not an object"),
    "prints no tool": ("""echo '{"kind": "x"}'""", "has no name"),
    "fails": ("echo 'no such option' >&2; exit 42", "exited with 42"),
    "prints ten thousand numbers": ("seq 10000", "printed something that"),
    "prints a parameter of no type": (
        """echo '{"name": "x", "parameters": {"a": {"type": "text"}}}'""",
        "whose type is none of",
    ),
    "prints a schema that is none": (
        """echo '{"name": "x", "input_schema": {"type": "object", "properties": 3}}'""",
        "cannot be used",
    ),
    "prints a schema with a reference to a file": (
        """echo '{"name": "x", "input_schema": {"$ref": "file:///etc/passwd"}}'""",
        "cannot be used",
    ),
    "prints a gigabyte": ("yes 0123456789 | head -c 1073741824", "printed more than"),
    "prints a name that no tool can have": ("""echo '{"name": "a b", "parameters": {}}'""", "has no name"),
}


@pytest.mark.parametrize("case", sorted(UNKNOWN))
async def test_a_schema_that_cannot_be_read_is_said_so_and_each_call_is_asked(root: Root, case: str) -> None:
    on_schema, why = UNKNOWN[case]
    put(user_tools(root), "odd", shell(on_schema, """cat >/dev/null; echo '{"fine": true}'"""))
    root.policy({"tool": "odd", "decision": "allow", "because": "I wrote it"})
    async with kernel_of(root) as kernel:
        listed = await until(lambda: _unknown(kernel, "odd"))
        assert listed.stability.effective is Effective.DEGRADED
        assert why in listed.stability.reasons[0].message
        result = await approved_call(kernel, "odd", {"anything": [1]})
        assert result.output == {"fine": True}
        assert not (root.folder / "acted").exists()


def _unknown(kernel: Kernel, name: str) -> CapabilityView | None:
    listed = view(kernel, name)
    reasons = listed.stability.reasons if listed is not None else ()
    return listed if any(reason.code is ReasonCode.SCHEMA_UNKNOWN for reason in reasons) else None


async def test_what_it_wrote_to_stderr_is_kept_with_the_reason(root: Root) -> None:
    put(user_tools(root), "odd", shell("echo 'first line' >&2; echo 'no such option' >&2; exit 42"))
    async with kernel_of(root) as kernel:
        listed = await until(lambda: _unknown(kernel, "odd"))
        assert "no such option" in listed.stability.reasons[0].message
        assert listed.stability.evidence.probe.stderr_tail == "first line\nno such option\n"
        ask_for = request(kernel, "odd")
        async with anyio.create_task_group() as group:
            group.start_soon(kernel.call, ask_for)
            card = (await waiting_ask(kernel)).request
            assert not any(seal.leasable for seal in card.seals), "no lease covers unchecked inputs"
            kernel.cancel(ask_for.call_id)


async def test_a_tool_in_both_answers_of_an_unknown_form_is_read_by_what_it_prints(root: Root) -> None:
    put(user_tools(root), "odd", shell("exit 1", """echo '{"success": false, "error": "no"}'"""))
    async with kernel_of(root) as kernel:
        await until(lambda: _unknown(kernel, "odd"))
        result = await approved_call(kernel, "odd")
        assert result.error is not None
        assert (result.error.code, result.error.message) == ("failed", "no")


HOSTILE = {
    "hangs": "while :; do sleep 1; done",
    "fills memory": "exec python3 -c 'x = bytearray(1 << 30); x[::4096] = b\"1\" * len(x[::4096])'",
    "forks without end": "while :; do sleep 30 & done",
    "leaves a child behind": "sleep 1000 & echo '{}'",
}


@pytest.mark.long
@pytest.mark.parametrize("case", sorted(HOSTILE))
async def test_a_hostile_question_ends_and_holds_up_no_other(root: Root, case: str) -> None:
    put(user_tools(root), "bad", shell(HOSTILE[case]))
    put(user_tools(root), "echo", program(ECHO_SCHEMA, ECHO_BODY))
    async with kernel_of(root) as kernel:
        await described(kernel, "echo")
        await until(lambda: _unknown(kernel, "bad"))
        said = await approved_call(kernel, "echo", {"text": "hi"})
        assert said.status is Status.SUCCESS
        await until(lambda: not processes_of(root))


async def test_files_are_followed_while_the_kernel_runs(root: Root) -> None:
    folder = user_tools(root)
    async with kernel_of(root) as kernel:
        assert view(kernel, "echo") is None
        put(folder, "echo", program(ECHO_SCHEMA, ECHO_BODY))  # dropped
        first = await described(kernel, "echo")
        put(folder, "echo", program(ECHO_SCHEMA, ECHO_BODY.replace('data["text"]', '"other"')))  # replaced
        said = await approved_call(kernel, "echo", {"text": "hi"})
        assert said.output["result"] == "other other"
        assert (await described(kernel, "echo")).capability == first.capability
        put(folder, "echo", shell("echo 'it broke' >&2; exit 1"))  # broken
        broken = await until(lambda: _unknown(kernel, "echo"))
        assert broken.capability.input_schema == {}
        put(folder, "echo", program(ECHO_SCHEMA, ECHO_BODY))  # mended
        await described(kernel, "echo")
        (folder / "echo").chmod(0o644)  # not executable any more
        await until(lambda: view(kernel, "echo") is None)
        (folder / "echo").chmod(0o755)
        await described(kernel, "echo")
        (folder / "echo").unlink()  # removed
        await until(lambda: view(kernel, "echo") is None)
        gone = await kernel.call(request(kernel, "echo", {"text": "x"}))
        assert gone.error is not None
        assert gone.error.code == Code.NOT_FOUND


async def test_a_description_that_changes_waits_with_its_difference(root: Root) -> None:
    folder = user_tools(root)
    put(folder, "echo", program(ECHO_SCHEMA, ECHO_BODY))
    async with kernel_of(root) as kernel:
        before = await described(kernel, "echo")
        put(folder, "echo", program({**ECHO_SCHEMA, "description": "Send it to somebody."}, ECHO_BODY))
        (item,) = await until(kernel.pending_trust)
        assert item.tools
        assert any("Send it to somebody." in line for line in item.difference)
        listed = view(kernel, "echo")
        assert listed is not None
        assert listed.capability.description == before.capability.description, "agents see the approved text"
        refused = await kernel.call(request(kernel, "echo", {"text": "x"}))
        assert refused.error is not None
        assert refused.error.code == ReasonCode.FOLDER_UNTRUSTED
        await approver_of(kernel).trust(((item.sidecar, item.digest),))
        await until(lambda: view(kernel, "echo").capability.description == "Send it to somebody.")
        assert (await approved_call(kernel, "echo", {"text": "x"})).status is Status.SUCCESS


async def test_a_project_s_file_that_is_replaced_is_asked_only_after_new_trust(root: Root) -> None:
    folder = project_tools(root)
    put(folder, "echo", program(ECHO_SCHEMA, ECHO_BODY))
    async with kernel_of(root) as kernel:
        await described(kernel, "echo")
        put(folder, "echo", program(ECHO_SCHEMA, ECHO_BODY + "\n# changed"))
        (item,) = await until(kernel.pending_trust)
        assert item.changed
        assert any("/sha256" in line for line in item.difference)
        listed = await until(lambda: _denied(kernel, "echo"))
        assert listed.stability.reasons[0].code is ReasonCode.FOLDER_UNTRUSTED
        await approver_of(kernel).trust(((item.sidecar, item.digest),))
        await described(kernel, "echo")


def _denied(kernel: Kernel, name: str) -> CapabilityView | None:
    listed = view(kernel, name)
    return listed if listed is not None and listed.stability.sandbox is SandboxState.DENIED else None


async def test_of_two_with_one_name_the_later_folder_wins_and_the_other_names_it(root: Root) -> None:
    put(user_tools(root), "echo", program(ECHO_SCHEMA, ECHO_BODY))
    put(project_tools(root), "mine", program(ECHO_SCHEMA, ECHO_BODY))
    async with kernel_of(root) as kernel:
        await described(kernel, "echo")
        await until(lambda: view(kernel, "echo").sidecar == "project.mine")
        loser = await until(lambda: _conflict(kernel, "user.echo"))
        assert "tools/bin/mine" in loser
        (project_tools(root) / "mine").unlink()
        await until(lambda: view(kernel, "echo").sidecar == "user.echo")


def _conflict(kernel: Kernel, name: str) -> str:
    listed = sidecar(kernel, name)
    problems = listed.entry.problems if listed is not None else ()
    return next((problem.message for problem in problems if problem.rule == "tool-conflict"), "")


async def test_names_of_known_and_builtin_tools_are_refused(root: Root) -> None:
    put(user_tools(root), "fetch", program({**ECHO_SCHEMA, "name": "web.fetch"}, ECHO_BODY))
    put(user_tools(root), "git.push", shell("exit 1"))
    put(user_tools(root), "several", program([{**ECHO_SCHEMA, "name": name} for name in ("shell.run", "ok")]))
    async with kernel_of(root) as kernel:
        await described(kernel, "ok")
        refused = await until(lambda: _refusals(kernel, "user.fetch"))
        assert "web.fetch" in refused
        assert "shell.run" in await until(lambda: _refusals(kernel, "user.several"))
        assert view(kernel, "web.fetch").sidecar is None
        assert view(kernel, "shell.run").sidecar is None
        assert view(kernel, "git.push") is None


def _refusals(kernel: Kernel, name: str) -> str:
    listed = sidecar(kernel, name)
    problems = listed.entry.problems if listed is not None else ()
    return " ".join(problem.message for problem in problems)


async def test_a_registry_s_executable_goes_through_the_same_code(root: Root) -> None:
    text = program(COUNT_SCHEMA, COUNT_BODY)
    root.sidecar("counter", text, kind="executable", tools=["count"])
    put(root.folder / "tools" / "bin", "other", program(ECHO_SCHEMA, ECHO_BODY))
    async with kernel_of(root) as kernel:
        listed = await described(kernel, "count")
        assert listed.source == "registry:project"
        result = await approved_call(kernel, "count", {"text": "four"})
        assert result.output == {"letters": 4}


async def test_metrics_stay_when_everything_is_asked_again(root: Root) -> None:
    put(user_tools(root), "echo", program(ECHO_SCHEMA, ECHO_BODY))
    async with kernel_of(root) as kernel:
        await described(kernel, "echo")
        await approved_call(kernel, "echo", {"text": "x"})
        before = await kernel.metrics()
        cache = root.places.cache_dir / "schemas.json"
        written = cache.stat().st_mtime_ns
        kernel.probe("user.echo")
        await until(lambda: cache.stat().st_mtime_ns != written)
        await described(kernel, "echo")
        assert await kernel.metrics() == before


async def test_ten_thousand_numbers_arrive_whole(root: Root) -> None:
    body = "print(json.dumps({'success': True, 'result': list(range(10000))}))"
    put(user_tools(root), "numbers", program({"name": "numbers", "parameters": {}}, body))
    async with kernel_of(root) as kernel:
        await described(kernel, "numbers")
        result = await approved_call(kernel, "numbers")
        assert result.output == {"result": list(range(10000))}


async def test_a_tool_that_never_reads_its_input_answers_all_the_same(root: Root) -> None:
    put(user_tools(root), "deaf", shell(printing({"name": "deaf", "description": "d"}), "echo '{\"ok\": 1}'"))
    async with kernel_of(root) as kernel:
        await described(kernel, "deaf")
        result = await approved_call(kernel, "deaf", {"text": "x" * 500_000})
        assert result.output == {"ok": 1}


async def test_a_time_limit_of_the_schema_counts(root: Root) -> None:
    schema = {"name": "slow", "description": "d", "input_schema": {}, "timeout": "200ms"}
    put(user_tools(root), "slow", shell(printing(schema), "sleep 600"))
    async with kernel_of(root) as kernel:
        await described(kernel, "slow")
        result = await approved_call(kernel, "slow")
        assert result.error is not None
        assert (result.error.code, result.error.details["timeoutMs"]) == ("timeout", 200)


async def test_a_clone_s_file_takes_no_tool_from_a_trusted_one_before_it_is_trusted(root: Root) -> None:
    put(user_tools(root), "echo", program(ECHO_SCHEMA, ECHO_BODY))
    put(project_tools(root), "echo", shell("exit 1"))
    async with kernel_of(root, trusted=False) as kernel:
        await described(kernel, "echo")
        listed = view(kernel, "echo")
        assert listed is not None
        assert (listed.sidecar, listed.stability.effective) == ("user.echo", Effective.AVAILABLE)
        (item,) = kernel.pending_trust()
        await approver_of(kernel).trust(((item.sidecar, item.digest),))
        await until(lambda: view(kernel, "echo").sidecar == "project.echo")


async def test_a_file_named_like_a_server_s_tool_is_none(root: Root) -> None:
    root.sidecars["notes"] = {"kind": "mcp", "command": "absent-server"}
    root.write()
    put(user_tools(root), "notes.search.py", shell("exit 1"))
    put(user_tools(root), "other", program({**ECHO_SCHEMA, "name": "notes.find"}, ECHO_BODY))
    async with kernel_of(root) as kernel:
        assert "notes.find" in await until(lambda: _refusals(kernel, "user.other"))
        assert view(kernel, "notes.search") is None
        assert view(kernel, "notes.find") is None


async def test_one_alone_in_its_folder_has_a_complete_seal_so_that_a_rule_counts(root: Root) -> None:
    put(user_tools(root), "echo", program(ECHO_SCHEMA, ECHO_BODY))
    root.policy({"tool": "echo", "decision": "allow", "because": "I wrote it"})
    async with kernel_of(root) as kernel:
        await described(kernel, "echo")
        result = await kernel.call(request(kernel, "echo", {"text": "hi"}))
        assert result.output is not None
