"""Tools of manifests, called through a real kernel: requests to a real server, programs and Python functions
in real processes, and each row of the table of what goes wrong."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.approval import Ask
from flycore.model.call import ToolResult
from flycore.model.enums import Code, Level, RequestState, Status
from flycore.registry.manifest import parse_manifest
from kits.kernel import Root, answered_call, approve, approver_of, kernel_of, request, until, waiting_ask
from kits.web_servers import Talk, serving

pytestmark = pytest.mark.anyio

ALLOWED = ({"tool": "*", "decision": "allow", "because": "a test calls it"},)


class Project:
    """A root with manifests."""

    def __init__(self, base: Path) -> None:
        self.root = Root(base)
        # What is partial asks each time; the rules of the test are about everything else.
        self.root.policy(*ALLOWED)

    def manifest(self, name: str, *blocks: str) -> Path:
        folder = self.root.folder / "tools" / "manifests" / name
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "tool.yml"
        text = f"name: {name}\ndescription: a tool of a test\n"
        file.write_text(text + "".join(f"{textwrap.dedent(block).strip()}\n" for block in blocks))
        assert parse_manifest(file.read_text(), str(file), folder=name).problems == ()
        return file

    def script(self, name: str, text: str) -> Path:
        file = self.root.folder / "scripts" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
        return file


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


async def result_of(kernel: Kernel, name: str, input: dict[str, Any] | None = None) -> ToolResult:
    """The result of a call that a person approves, where one is asked."""
    results: list[ToolResult] = []

    async def run() -> None:
        results.append(await kernel.call(request(kernel, name, input)))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await until(lambda: results or any(one.state is RequestState.WAITING for one in kernel.asks()))
        if not results:
            await approve(kernel, await waiting_ask(kernel))
    return results[0]


HTTP = """\
    kind: http
    inputs:
      schema:
        type: object
        required: [q]
        properties:
          q: {type: string}
          count: {type: integer, default: 2}
          since: {type: string}
          deep: {type: boolean}
    permissions: {network: true, secrets: {API_TOKEN: {type: string, required: true}}}
    """


async def test_a_request_keeps_types_drops_what_is_absent_and_projects_its_answer(project: Project) -> None:
    def respond(talk: Talk) -> None:
        items = [{"title": "A", "url": "u", "more": 1}, {"title": "B"}]
        talk.json({"web": {"results": items}, "sent": json.loads(talk.body)})

    with serving(respond) as web:
        project.root.environ["API_TOKEN"] = "token-1234567"
        project.manifest(
            "search",
            HTTP,
            f"""
            exec:
              http:
                method: POST
                url: {web.url}/v1/${{q}}?fixed=1
                headers: {{Authorization: "Bearer ${{API_TOKEN}}", X-Since: "${{since}}"}}
                query: {{q: "${{q}}", since: "${{since}}", n: "${{count}}"}}
                body: {{text: "${{q}}", n: "${{count}}", deep: "${{deep}}", since: "${{since}}"}}
                response:
                  json_path: web.results
                  fields: [{{name: t, path: title}}, {{name: u, path: url}}]
            """,
        )
        async with kernel_of(project.root) as kernel:
            result = await result_of(kernel, "search", {"q": "a b&c=d/../#?", "deep": True})
    assert result.error is None
    assert result.output == [{"t": "A", "u": "u"}, {"t": "B"}]
    (talk,) = web.asked
    assert talk.path == ("/v1/a%20b%26c%3Dd%2F..%2F%23%3F?fixed=1&q=a%20b%26c%3Dd%2F..%2F%23%3F&n=2")
    assert json.loads(talk.body) == {"text": "a b&c=d/../#?", "n": 2, "deep": True}
    assert talk.header("authorization") == "Bearer token-1234567"
    assert talk.header("content-type") == "application/json"
    assert talk.header("x-since") is None


async def test_a_failed_request_gives_status_reason_and_excerpt_without_the_secret(project: Project) -> None:
    def respond(talk: Talk) -> None:
        talk.answer(b"no such thing: token-1234567 here", status="404 Nothing Here")

    with serving(respond) as web:
        project.root.environ["API_TOKEN"] = "token-1234567"
        project.manifest(
            "search",
            HTTP,
            f"exec: {{http: {{url: '{web.url}/x', headers: {{X-Key: '${{API_TOKEN}}'}}}}}}\n",
        )
        async with kernel_of(project.root) as kernel:
            result = await result_of(kernel, "search", {"q": "x"})
    assert (result.status, result.error and result.error.code) == (Status.FAILED, Code.FAILED)
    assert result.error is not None
    assert result.error.details["status"] == 404
    assert result.error.details["reason"] == "Nothing Here"
    assert result.error.details["excerpt"] == "no such thing: ••• here"
    assert "token-1234567" not in json.dumps(project.root.audit())


async def test_an_answer_that_never_ends_is_a_timeout(project: Project) -> None:
    with serving(lambda talk: talk.over.wait() and None) as web:
        project.manifest(
            "slow",
            f"""\
            kind: http
            permissions: {{network: true}}
            exec: {{http: {{url: '{web.url}/', timeout_ms: 200}}}}
            """,
        )
        async with kernel_of(project.root) as kernel:
            result = await result_of(kernel, "slow")
    assert result.error is not None
    assert result.error.code == Code.TIMEOUT
    assert result.error.details["timeoutMs"] == 200


async def test_a_host_of_a_placeholder_or_a_redirect_is_never_private(project: Project) -> None:
    with serving(lambda talk: talk.json({"inside": True})) as inside:

        def respond(talk: Talk) -> None:
            talk.answer(status="302 Found", location=f"{inside.url}/secret")

        with serving(respond) as web:
            for name, url in (("moved", f"{web.url}/"), ("named", "http://${host}/"), ("whole", "${host}")):
                project.manifest(
                    name,
                    f"""\
                    kind: http
                    inputs: {{schema: {{type: object, properties: {{host: {{type: string}}}}}}}}
                    permissions: {{network: true}}
                    exec: {{http: {{url: '{url}'}}}}
                    """,
                )
            async with kernel_of(project.root) as kernel:
                moved = await result_of(kernel, "moved")
                named = await result_of(kernel, "named", {"host": "127.0.0.1"})
                whole = await result_of(kernel, "whole", {"host": f"{inside.url}/"})
    for result in (moved, named, whole):
        assert result.error is not None
        assert result.error.details["code"] == "address-refused", result.error
    assert inside.connections == 0


async def test_a_value_has_no_effect_beyond_its_place(project: Project) -> None:
    with serving(lambda talk: talk.json({})) as web:
        project.manifest(
            "sent",
            f"""\
            kind: http
            inputs: {{schema: {{type: object, properties: {{a: {{type: string}}, b: {{type: string}}}}}}}}
            permissions: {{network: true}}
            exec:
              http:
                url: '{web.url}/items/${{a}}'
                headers: {{X-B: '${{b}}'}}
            """,
        )
        async with kernel_of(project.root) as kernel:
            climbing = await result_of(kernel, "sent", {"a": ".."})
            broken = await result_of(kernel, "sent", {"a": "x", "b": "1\r\nX-Evil: 1"})
            plain = await result_of(kernel, "sent", {"a": "${b}", "b": "${a}"})
    for result in (climbing, broken):
        assert result.error is not None
        assert result.error.code == Code.INVALID_INPUT
    assert plain.status is Status.SUCCESS
    (talk,) = web.asked
    assert talk.path == "/items/%24%7Bb%7D"
    assert talk.header("x-b") == "${a}"


async def test_an_answer_that_is_not_what_was_declared_is_delivered_with_a_warning(project: Project) -> None:
    with serving(lambda talk: talk.answer(b"<p>hello", content_type="text/html")) as web:
        for name, outputs in (("page", "{}"), ("list", "{schema: {type: array}}")):
            project.manifest(
                name,
                f"""\
                kind: http
                outputs: {outputs}
                permissions: {{network: true}}
                exec: {{http: {{url: '{web.url}/', response: {{json_path: a.b}}}}}}
                """,
            )
        async with kernel_of(project.root) as kernel:
            page = await result_of(kernel, "page")
            listed = await result_of(kernel, "list")
    assert page.output == "<p>hello"
    assert any("declared as JSON" in warning for warning in page.warnings)
    assert listed.output == "<p>hello"
    assert len(listed.warnings) == 2


# Commands.


COMMAND = """\
    kind: command
    inputs:
      schema:
        type: object
        properties: {path: {type: string}, n: {type: integer}, tag: {type: string}}
    """


async def test_a_command_gets_each_value_as_one_argument_without_a_shell(project: Project) -> None:
    project.script("args", f"#!{sys.executable} -I\nimport sys, json; print(json.dumps(sys.argv[1:]))\n")
    project.manifest(
        "args",
        COMMAND,
        """
    exec:
      command:
        entrypoint: scripts/args
        args: ["${path}", "--tag=${tag}", "${n}", 3, "end"]
        stdout: {format: json}
    """,
    )
    async with kernel_of(project.root) as kernel:
        hostile = "$(touch x); `id` | cat\n${n} \"'*"
        result = await result_of(kernel, "args", {"path": hostile, "n": -5})
        option = await result_of(kernel, "args", {"path": "--output=/etc/passwd"})
        view = kernel.catalog().sidecar("args")
    assert result.error is None
    assert result.output == [hostile, "-5", "3", "end"]
    assert result.sandbox in (Level.ENFORCED, Level.DEGRADED)
    assert option.error is not None
    assert option.error.code == Code.INVALID_INPUT
    assert view is not None
    assert view.stability.evidence.sandbox is not None


async def test_exit_codes_decide_and_permissions_are_enforced(project: Project) -> None:
    (project.root.folder / "notes.txt").write_text("private")
    project.script("try", "#!/bin/sh\ncat notes.txt 2>/dev/null || echo unread\necho why >&2\nexit $1\n")
    for name, ok, files in (("bad", "[0]", ""), ("good", "[0, 3]", "permissions: {fs: {read: [notes.txt]}}")):
        project.manifest(
            name,
            COMMAND,
            f"""
    {files}
    exec: {{command: {{entrypoint: ./scripts/try, args: ['${{n}}'], exit_codes_ok: {ok}}}}}
    """,
        )
    async with kernel_of(project.root) as kernel:
        bad = await result_of(kernel, "bad", {"n": 3})
        good = await result_of(kernel, "good", {"n": 3})
    assert bad.error is not None
    assert bad.error.code == Code.EXIT
    assert bad.error.details["exitCode"] == 3
    assert bad.error.details["stderr"] == "why"
    assert bad.error.details["stdout"] == "unread\n"
    assert good.output == "private"
    assert good.exit_code == 3


async def test_a_missing_secret_is_named_and_an_optional_one_is_left_out(project: Project) -> None:
    project.script("env", '#!/bin/sh\necho "${NEEDED_KEY:-none} ${SPARE_KEY:-none} ${OTHER_KEY:-none}"\n')
    for name, secrets in (
        ("needs", "{NEEDED_KEY: {type: string, required: true}}"),
        ("spares", "{SPARE_KEY: {required: false}}"),
        ("typed", "{NUMBER_KEY: {type: integer}}"),
    ):
        project.manifest(
            name,
            f"""\
            kind: command
            permissions: {{secrets: {secrets}}}
            exec: {{command: {{entrypoint: ./scripts/env}}}}
            """,
        )
    project.root.environ |= {"OTHER_KEY": "undeclared", "NUMBER_KEY": "not a number"}
    async with kernel_of(project.root) as kernel:
        needs = await result_of(kernel, "needs")
        spares = await result_of(kernel, "spares")
        typed = await result_of(kernel, "typed")
    assert needs.error is not None
    assert needs.status is Status.UNAVAILABLE
    assert "NEEDED_KEY" in needs.error.message
    assert spares.output == "none none none\n"
    assert typed.error is not None
    assert "NUMBER_KEY" in typed.error.message
    assert "integer" in typed.error.message


async def test_a_command_that_takes_too_long_is_ended(project: Project) -> None:
    project.script("wait", "#!/bin/sh\nexec sleep 600\n")
    project.manifest(
        "wait", "kind: command\nexec: {command: {entrypoint: ./scripts/wait, timeout_ms: 300}}\n"
    )
    async with kernel_of(project.root) as kernel:
        result = await result_of(kernel, "wait")
    assert result.error is not None
    assert result.error.code == Code.TIMEOUT


# Python functions.


PYTHON = """\
    kind: python
    inputs:
      schema:
        type: object
        properties: {path: {type: string, default: "."}, n: {type: integer}, extra: {type: array}}
    permissions: {fs: {read: [data]}}
    """

STATS = """
import os, sys

def run(path, n=None, extra=()):
    print("noise on stdout")
    if n == 13:
        raise ValueError("unlucky")
    if n == 14:
        os._exit(5)
    if n == 15:
        return {1, 2}
    try:
        outside = open("notes.txt").read()
    except OSError:
        outside = "hidden"
    return {"n": n, "extra": list(extra), "files": sorted(os.listdir(path)), "outside": outside,
            "prefix": sys.prefix}

async def later(path):
    return path.upper()
"""


def python_project(project: Project, **exec_: Any) -> None:
    package = project.root.folder / "mods"
    package.mkdir(exist_ok=True)
    (package / "stats.py").write_text(STATS)
    (project.root.folder / "data").mkdir(exist_ok=True)
    (project.root.folder / "data" / "one").write_text("1")
    (project.root.folder / "notes.txt").write_text("private")
    fields = {"module": "mods.stats", "function": "run", "args": {"path": "${path}", "n": "${n}"}, **exec_}
    project.manifest("stats", PYTHON, f"exec: {json.dumps({'python': fields})}\n")


async def test_a_function_gets_typed_arguments_and_returns_json(project: Project, level: Level) -> None:
    python_project(project, args={"path": "${path}", "n": "${n}", "extra": "${extra}"})
    async with kernel_of(project.root) as kernel:
        result = await result_of(kernel, "stats", {"path": "data", "n": 4, "extra": [True, "x"]})
    assert result.error is None, result
    output = result.output
    assert isinstance(output, dict)
    assert {key: output[key] for key in ("n", "extra", "files", "outside")} == {
        "n": 4,
        "extra": [True, "x"],
        "files": ["one"],
        "outside": "hidden",
    }
    assert "noise on stdout" in result.stderr_tail


async def test_an_exception_gives_type_message_and_traceback(project: Project, level: Level) -> None:
    python_project(project)
    async with kernel_of(project.root) as kernel:
        raised = await result_of(kernel, "stats", {"n": 13, "path": "data"})
        left = await result_of(kernel, "stats", {"n": 14, "path": "data"})
        unjson = await result_of(kernel, "stats", {"n": 15, "path": "data"})
    assert raised.error is not None
    assert raised.error.message == "ValueError: unlucky"
    assert raised.error.details["type"] == "ValueError"
    assert "in run" in str(raised.error.details["traceback"])
    assert left.error is not None
    assert (left.error.code, left.error.details["exitCode"]) == (Code.EXIT, 5)
    assert unjson.error is not None
    assert unjson.error.details["type"] == "TypeError"


async def test_a_coroutine_is_awaited_and_its_result_may_be_text(project: Project, level: Level) -> None:
    python_project(project, function="later", args=["${path}"], **{"return": "text"})
    async with kernel_of(project.root) as kernel:
        result = await result_of(kernel, "stats", {"path": "data"})
    assert result.output == "DATA"


async def test_a_function_runs_in_the_interpreter_of_its_environment(project: Project, level: Level) -> None:
    import venv

    venv.EnvBuilder(with_pip=False, symlinks=True).create(project.root.folder / ".venv")
    python_project(project, venv=".venv")
    async with kernel_of(project.root) as kernel:
        result = await result_of(kernel, "stats", {"path": "data"})
    assert result.error is None, result
    assert isinstance(result.output, dict)
    assert result.output["prefix"] == str((project.root.folder / ".venv").resolve())


# Trust, reloading, approval.


async def test_nothing_runs_before_trust_and_a_changed_manifest_asks_again(project: Project) -> None:
    project.script("hello", "#!/bin/sh\necho hello\n")
    text = "kind: command\nexec: {command: {entrypoint: ./scripts/hello}}\n"
    async with kernel_of(project.root) as kernel:
        file = project.manifest("hello", text)
        await until(lambda: kernel.pending_trust())
        refused = await kernel.call(request(kernel, "hello"))
        (item,) = kernel.pending_trust()
        assert any("scripts/hello" in line for line in item.lines)
        assert refused.status is Status.UNAVAILABLE
        await approver_of(kernel).trust(((item.sidecar, item.digest),))
        assert (await result_of(kernel, "hello")).output == "hello\n"
        project.manifest("hello", text + "permissions: {network: true}\n")
        (again,) = await until(lambda: kernel.pending_trust())
        assert again.changed
        assert any("network" in line for line in again.difference)
        assert (await kernel.call(request(kernel, "hello"))).status is Status.UNAVAILABLE
        file.unlink()
        await until(lambda: kernel.catalog().capability("hello") is None)


async def test_a_tool_that_says_so_is_asked_about_whatever_policy_allows(project: Project) -> None:
    with serving(lambda talk: talk.json({"ok": True})) as web:
        for name, approval in (("asks", "{required: true, reason: it tells others}"), ("runs", "{}")):
            project.manifest(
                name,
                f"""\
                kind: http
                permissions: {{network: true}}
                approval: {approval}
                exec: {{http: {{url: '{web.url}/'}}}}
                """,
            )
        async with kernel_of(project.root) as kernel:
            runs = await kernel.call(request(kernel, "runs"))
            asks: list[Ask] = []

            async def answer(ask: Ask) -> None:
                asks.append(ask)
                await approve(kernel, ask)

            asked = await answered_call(kernel, answer, "asks")
    assert runs.status is Status.SUCCESS
    assert asked.status is Status.SUCCESS
    assert any("it tells others" in rule.because for rule in asks[0].request.why)
