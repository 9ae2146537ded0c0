"""One call after another: the request as written, every guarantee of the runner, artifacts, probes."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from flycore.model.enums import Code, ProbeMode, Status
from flycore.model.sidecar import Limits
from flycore.runners.child import run
from flycore.runners.child.launcher_program import OOM_SCORE_RAISE
from flycore.runners.one_shot import ProcessJsonJob, RunOutcome, call_sidecar, probe_sidecar, request_line
from flycore.runners.output import SidecarEvent
from flycore.runners.persistent import PersistentProcess, ask_process
from kits.started_children import started_children

MakeJob = Callable[..., ProcessJsonJob]
pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

ECHO = """import sys, json
line = sys.stdin.readline()
assert sys.stdin.read() == ''
print(json.dumps({'ok': True, 'request': json.loads(line)}))
"""


async def test_the_request_is_the_contract(sidecar: MakeJob, tmp_path: Path) -> None:
    job = sidecar(
        ECHO,
        input={"path": "ü\u2028\0"},
        config={"a": [1]},
        delegates={"keyboard": {"argv": ["/bin/x", "y"]}},
        artifact_dir="/artifacts",
        config_dir="/config",
        extra={"refuse": {"windowIds": [1], "pids": []}, "tool": "another", "requestId": "another"},
    )
    outcome = await call_sidecar(job)
    assert outcome.status is Status.SUCCESS, outcome
    assert outcome.output == {
        "request": {
            "tool": "test.tool",
            "input": {"path": "ü\u2028\0"},
            "config": {"a": [1]},
            "delegates": {"keyboard": {"argv": ["/bin/x", "y"]}},
            "projectDir": str(tmp_path),
            "cwd": job.cwd,
            "configDir": "/config",
            "artifactDir": "/artifacts",
            "requestId": job.call_id,
            "protocol": "process-json/1",
            "refuse": {"windowIds": [1], "pids": []},
        }
    }
    assert request_line(job).count(b"\n") == 1
    assert (outcome.exit_code, outcome.warnings) == (0, ())


async def test_what_json_or_utf8_cannot_hold_does_not_crash(sidecar: MakeJob) -> None:
    half = await call_sidecar(sidecar("print('{\"ok\": true}')", input={"text": "\ud800"}))
    assert half.status is Status.SUCCESS
    infinite = await call_sidecar(sidecar(ECHO, config={"n": float("inf")}))
    assert (infinite.status, infinite.code) == (Status.FAILED, Code.INVALID_INPUT)


async def test_a_sidecar_in_twenty_lines_of_shell_works_unchanged(sidecar: MakeJob, tmp_path: Path) -> None:
    script = tmp_path / "count.sh"
    script.write_text('#!/bin/sh\nread -r request\nprintf \'{"ok": true, "bytes": %d}\' "${#request}"\n')
    script.chmod(0o700)
    job = replace(sidecar(""), argv=(str(script),))
    outcome = await call_sidecar(job)
    assert outcome.output == {"bytes": len(request_line(job)) - 1}


SPAWN_FAULTS = {
    "missing": "not found",
    "plain": "not executable",
    "folder": "not executable",
    "bad interpreter": "interpreter",
    "no format": "not a program",
    "plain/below": "not a folder",
    "nul\0byte": "NUL",
}


@pytest.mark.parametrize("name", SPAWN_FAULTS)
async def test_what_cannot_be_started_says_what_to_check(name: str, sidecar: MakeJob, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    (tmp_path / "folder").mkdir()
    for script, text in (("bad interpreter", "#!/nowhere/sh\n"), ("no format", "\x7fnothing")):
        (tmp_path / script).write_text(text)
        (tmp_path / script).chmod(0o700)
    outcome = await call_sidecar(replace(sidecar(""), argv=(str(tmp_path / name),)))
    assert (outcome.status, outcome.code) == (Status.FAILED, Code.SPAWN)
    assert SPAWN_FAULTS[name] in outcome.message
    assert outcome.hint
    assert outcome.exit_code is None


async def test_a_working_directory_that_is_gone_is_named(sidecar: MakeJob) -> None:
    outcome = await call_sidecar(sidecar(ECHO, cwd="/nowhere"))
    assert outcome.code == Code.SPAWN
    assert "/nowhere" in outcome.message


async def test_out_of_descriptors_is_an_outcome(sidecar: MakeJob) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + 3, before[1]))
    try:
        outcome = await call_sidecar(sidecar(ECHO))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert outcome.code == Code.SPAWN
    assert "descriptor" in outcome.message


async def test_the_child_gets_only_what_it_is_given(
    sidecar: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNEL_ONLY", "x")
    leaked = os.open("/", os.O_RDONLY)
    os.set_inheritable(leaked, True)
    code = "import os, json\nprint(json.dumps({'ok': True, 'env': sorted(os.environ), "
    code += "'fds': os.listdir('/proc/self/fd'), 'leads': os.getsid(0) == os.getpid() == os.getpgrp()}))"
    try:
        outcome = await call_sidecar(sidecar(code))
    finally:
        os.close(leaked)
    assert isinstance(outcome.output, dict)
    assert outcome.output["leads"] is True
    assert set(outcome.output["env"]) <= {"FLYTUI_CALL_ID", "PATH", "LC_CTYPE"}
    assert len(outcome.output["fds"]) == 4  # three pipes and the listing itself


def oom_score() -> int:
    return int(Path("/proc/self/oom_score_adj").read_text())


async def test_a_child_is_ended_before_the_kernel_where_memory_runs_out(sidecar: MakeJob) -> None:
    own = oom_score()
    code = (
        "import json, time\n"
        "def score(): return int(open('/proc/self/oom_score_adj').read())\n"
        f"while score() == {own}: time.sleep(0.01)\n"
        "print(json.dumps({'ok': True, 'score': score()}))"
    )
    outcome = await call_sidecar(sidecar(code))
    assert outcome.output == {"score": min(own + OOM_SCORE_RAISE, 1000)}
    assert oom_score() == own


async def test_only_declared_limits_are_set(sidecar: MakeJob) -> None:
    code = "import sys, json, resource as r\nsys.stdin.read()\nnames = 'CPU AS FSIZE NOFILE'.split()\n"
    code += "limits = {n: r.getrlimit(getattr(r, 'RLIMIT_' + n)) for n in names}\n"
    code += "print(json.dumps({'ok': True, **limits}))"
    own = [resource.getrlimit(kind) for kind in (resource.RLIMIT_CPU, resource.RLIMIT_AS)]
    outcome = await call_sidecar(sidecar(code, limits=Limits(file_bytes=4096, open_files=32)))
    assert outcome.output == {
        "CPU": list(own[0]),
        "AS": list(own[1]),
        "FSIZE": [4096, 4096],
        "NOFILE": [32, 32],
    }


async def test_a_cpu_limit_ends_a_busy_child(sidecar: MakeJob) -> None:
    outcome = await call_sidecar(sidecar("while True: pass", limits=Limits(cpu_seconds=1)))
    assert (outcome.code, outcome.exit_code) == (Code.EXIT, -9)


async def test_timeout_names_the_limit_and_keeps_what_was_said(sidecar: MakeJob) -> None:
    code = "import sys, time\nsys.stderr.write('waiting for the device')\nsys.stderr.flush()\ntime.sleep(600)"
    outcome = await call_sidecar(sidecar(code, timeout_ms=1_000))
    assert outcome.code == Code.TIMEOUT
    assert "1000 ms" in outcome.message
    assert "timeoutMs" in outcome.hint
    assert outcome.stderr_tail == "waiting for the device"
    assert outcome.details["stderr"] == "waiting for the device"


async def test_output_up_to_the_limit_is_read_and_one_byte_more_is_not(sidecar: MakeJob) -> None:
    code = "import sys\nsys.stdout.write('{\"ok\": true, \"x\": \"' + 'a' * %d + '\"}')"
    fits = await call_sidecar(sidecar(code % (200_000 - 21), max_output_bytes=200_000))
    assert fits.status is Status.SUCCESS, fits
    over = await call_sidecar(sidecar(code % (200_000 - 20), max_output_bytes=200_000))
    assert over.code == Code.OUTPUT_LIMIT
    assert over.details["maxOutputBytes"] == 200_000


@pytest.mark.parametrize("persistent", [False, True])
async def test_a_flood_of_events_is_reported_in_part(sidecar: MakeJob, persistent: bool) -> None:
    event = '{"event": "progress", "progress": 1}\\n'
    code = "import sys, json; request = json.loads(sys.stdin.readline()); "
    code += f"sys.stdout.write('{event}' * 20_000); "
    code += "print(json.dumps({'ok': True, 'n': 1, 'requestId': request['requestId']}))"
    events: list[SidecarEvent] = []
    job = sidecar(code, max_output_bytes=4_000_000)
    if persistent:
        process = PersistentProcess(job.spawn_spec, lambda _: None)
        try:
            outcome = await ask_process(process, job, events.append)
        finally:
            await process.end(at_once=True)
    else:
        outcome = await call_sidecar(job, events.append)
    assert outcome.status is Status.SUCCESS
    assert isinstance(outcome.output, dict)
    assert outcome.output["n"] == 1
    assert 50 <= len(events) < 20_000
    assert f"{20_000 - len(events)} events of the sidecar were left out" in outcome.warnings[0]


@pytest.mark.parametrize("persistent", [False, True])
async def test_large_answers_are_read_whole(sidecar: MakeJob, persistent: bool) -> None:
    code = "import sys, json; request = json.loads(sys.stdin.readline()); "
    code += "print(json.dumps({'ok': True, 'n': [1] * 60_000, 'requestId': request['requestId']}))"
    job = sidecar(code)
    if persistent:
        process = PersistentProcess(job.spawn_spec, lambda _: None)
        try:
            outcome = await ask_process(process, job, None)
            assert process.answered == 1
        finally:
            await process.end(at_once=True)
    else:
        outcome = await call_sidecar(job)
    assert isinstance(outcome.output, dict)
    assert outcome.output["n"] == [1] * 60_000


async def test_answer_of_too_many_values_is_invalid(sidecar: MakeJob) -> None:
    outcome = await call_sidecar(sidecar("print('{\"ok\": true, \"n\": [' + '0,' * 300_000 + '0]}')"))
    assert outcome.code == Code.INVALID_OUTPUT
    assert "100,000 values" in outcome.message


async def test_events_arrive_while_the_child_runs(sidecar: MakeJob, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    code = 'print(\'{"event": "progress", "progress": 1, "message": "half"}\', flush=True)\n'
    code += "open('go').read()\nprint('{\"ok\": true}')"
    seen = anyio.Event()
    events: list[SidecarEvent] = []

    def on_event(event: SidecarEvent) -> None:
        events.append(event)
        seen.set()

    async def answer_after_the_event() -> None:
        await seen.wait()
        await anyio.Path(tmp_path / "go").write_bytes(b"")

    async with anyio.create_task_group() as group:
        group.start_soon(answer_after_the_event)
        outcome = await call_sidecar(sidecar(code), on_event)
    assert outcome.status is Status.SUCCESS
    assert events == [SidecarEvent(message="half", progress=1.0)]


@pytest.mark.parametrize("polite", [True, False])
async def test_cancelling_ends_the_tree_before_it_goes_on(
    polite: bool, sidecar: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "TERM_GRACE_S", 0.2)
    code = "import os, signal, time\n" + ("" if polite else "signal.signal(15, signal.SIG_IGN)\n")
    code += "if os.fork() == 0:\n os.setsid()\n time.sleep(600)\n"
    code += 'print(\'{"event": "log", "message": "up"}\', flush=True)\ntime.sleep(600)'
    before = started_children()
    returned = False
    with anyio.CancelScope() as scope:
        await call_sidecar(sidecar(code), lambda _: scope.cancel())
        returned = True
    assert scope.cancelled_caught
    assert not returned
    assert started_children() == before


async def test_artifacts_are_checked(sidecar: MakeJob, tmp_path: Path) -> None:
    project, artifacts = tmp_path / "project", tmp_path / "artifacts"
    project.mkdir()
    artifacts.mkdir()
    (artifacts / "shot.png").write_bytes(b"12345")
    (project / "page.html").write_bytes(b"123")
    (tmp_path / "outside").write_bytes(b"1")
    (artifacts / "leaving").symlink_to(tmp_path / "outside")
    (artifacts / "inside").symlink_to(project / "page.html")
    os.mkfifo(artifacts / "fifo")
    named = [
        {"path": "shot.png", "mimeType": "image/png", "bytes": 999},
        {"path": str(project / "page.html")},
        {"path": "inside", "mimeType": 5},
        {"path": "leaving"},
        {"path": "../outside"},
        {"path": "/etc/passwd"},
        {"path": "fifo"},
        {"path": "."},
        {"path": "missing"},
        {"path": "nul\0"},
        {"mimeType": "x"},
        "shot.png",
    ]
    code = f"import json\nprint(json.dumps({{'ok': True, 'artifacts': {named!r}}}))"
    outcome = await call_sidecar(sidecar(code, project_dir=str(project), artifact_dir=str(artifacts)))
    kept = [(Path(item.path).name, item.mime_type, item.bytes) for item in outcome.artifacts]
    assert kept == [
        ("shot.png", "image/png", 5),
        ("page.html", "application/octet-stream", 3),
        ("page.html", "application/octet-stream", 3),
    ]
    assert len(outcome.warnings) == 9
    assert isinstance(outcome.output, dict)
    assert [item["bytes"] for item in outcome.output["artifacts"]] == [5, 3, 3]


PROBE = (
    "import sys, json\nasked = sys.argv[-1] if sys.argv[-1] == '--probe' else json.load(sys.stdin)['input']\n"
)


@pytest.mark.parametrize(
    ("mode", "asked"), [(ProbeMode.COMMAND, "--probe"), (ProbeMode.REQUEST, {"probe": True})]
)
async def test_probes_ask_without_acting(mode: ProbeMode, asked: object, sidecar: MakeJob) -> None:
    job = sidecar(PROBE + "print(json.dumps({'ok': True, 'tools': {}, 'asked': asked}))", input={"act": True})
    outcome = await probe_sidecar(job, mode, 20_000)
    assert outcome.output == {"tools": {}, "asked": asked}


async def test_probe_failures_are_outcomes(sidecar: MakeJob) -> None:
    silent = await probe_sidecar(sidecar("pass"), ProbeMode.COMMAND, 20_000)
    assert (silent.status, silent.output) == (Status.SUCCESS, {})
    failing = await probe_sidecar(sidecar("raise SystemExit(1)"), ProbeMode.COMMAND, 20_000)
    assert (failing.status, failing.code) == (Status.FAILED, Code.EXIT)
    slow = await probe_sidecar(sidecar("import time\ntime.sleep(600)"), ProbeMode.COMMAND, 200)
    assert slow.code == Code.TIMEOUT
    unavailable = 'print(\'{"ok": false, "code": "unavailable", "error": "no display"}\')'
    missing = await probe_sidecar(sidecar(unavailable), ProbeMode.REQUEST, 20_000)
    assert (missing.status, missing.message) == (Status.UNAVAILABLE, "no display")


def test_the_executable_can_differ_from_the_name_it_sees(sidecar: MakeJob) -> None:
    job = sidecar("", executable=sys.executable)
    assert job.spawn_spec.executable == sys.executable
    assert "PATH" not in repr(job)
    assert json.loads(request_line(job))["tool"] == "test.tool"


GIGABYTE = "const held = []; for (let n = 0; n < 64; n++) held.push(Buffer.alloc(1 << 24, 1));"


@pytest.mark.parametrize("declared", [None, 512 << 20])
@pytest.mark.parametrize("named", ["interpreter", "first line"])
async def test_node_starts_with_a_limit_of_memory_and_is_held_to_it(
    sidecar: MakeJob, tmp_path: Path, declared: int | None, named: str
) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")

    async def run(code: str) -> RunOutcome:
        program = tmp_path / "tool"
        program.write_text(f"#!{node}\n{code}console.log(JSON.stringify({{ok: true}}))")
        program.chmod(0o755)
        argv = (node, str(program)) if named == "interpreter" else (str(program),)
        return await call_sidecar(sidecar("", argv=argv, limits=Limits(memory_bytes=declared)))

    outcome = await run("")
    assert outcome.status is Status.SUCCESS, outcome
    assert (await run(GIGABYTE)).status is Status.FAILED
