"""The contract's checks: a program that keeps it passes each; for each there is a program that fails it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flycore.conformance.bad_requests import bad_requests, try_bad_request
from flycore.conformance.calls import OTHER_CALLS, judge_answer, judge_rest
from flycore.conformance.check import check_contract
from flycore.conformance.harness import CheckTarget, SidecarHarness
from flycore.conformance.output_checks import event_faults, probe_faults, read_schema
from flycore.conformance.persistent import check_persistent
from flycore.conformance.probes import describe, judge_probe
from flycore.conformance.program import find_program
from flycore.model.diagnostics import Check, CheckState
from flycore.model.enums import ProbeMode, Status
from flycore.runners.one_shot import RunOutcome, probe_sidecar
from kits.tables import each_row

pytestmark = pytest.mark.anyio

PROGRAM = '''
import json, os, select, signal, sys, time
lines = sys.stdin.buffer if sys.stdin else ()
def say(value):
    data = json.dumps(value).encode() + b"\\n"
    while data:
        data = data[os.write(1, data):]
def refuse(code):
    return {"ok": False, "code": code, "error": "no"}
def probe():
    return {"ok": True, "tools": {"good.tool": {"status": "healthy"}}}
def schema():
    return {"name": "good", "tools": [
        {"name": "good.tool", "description": "Is good.", "inputSchema": {"type": "object"}}]}
def before(request):
    """What is done first."""
def work(request):
    if request["input"].get("text") == "slow":
        say({"event": "progress", "progress": 1, "total": 2})
        select.select([0], [], [], 0.2)
    return {"ok": True, "text": request["input"]["text"]}
def unknown(request):
    return refuse("not-found")
def invalid(request):
    return refuse("invalid-input")
def not_asked(line):
    return refuse("invalid-request")
def answer(line):
    try:
        request = json.loads(line)
        tool, given = request["tool"], request["input"]
    except (ValueError, TypeError, KeyError):
        return not_asked(line)
    if not isinstance(tool, str) or not isinstance(given, dict):
        return not_asked(line)
    if given == {"probe": True}:
        return probe()
    before(request)
    if tool != "good.tool":
        found = unknown(request)
    elif not isinstance(given.get("text"), str):
        found = invalid(request)
    else:
        found = work(request)
    return {**found, "requestId": request.get("requestId")}
def loop():
    ok = True
    for line in lines:
        if line.startswith(b'{"cancel"'):
            continue
        found = answer(line)
        ok = found["ok"] or b'"persistent"' in line
        say(found)
    return 0 if ok else 1
def main():
    if "--probe" in sys.argv:
        say(probe())
        return 0
    if "--schema" in sys.argv:
        say(schema())
        return 0
    return loop()
exec(sys.argv[1])
sys.exit(main())
'''
GIVEN = {"text": "hello"}
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
SLEEPER = """
def before(request):
    if os.path.exists("told") and request["input"] == {"text": "hello"}:
        say({"event": "log", "message": "x"})
        time.sleep(600)
    if request["tool"] == "no.such.tool":
        open("told", "w").close()
"""
"""Sleeps from the call on that comes after the one of an unknown tool: the one that is cancelled."""
NAMES = {
    "unknown keys": "check_unknown_keys",
    "elsewhere": "check_other_folder",
    "big request": "check_big_request",
    "unknown tool": "check_unknown_tool",
    "term": "check_termination",
}
MISUSES = {misuse.name: misuse for misuse in bad_requests({"tool": "good.tool", "input": GIVEN})}


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., SidecarHarness]:
    """A bench for the program, with code of the test's own that changes it."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)

    def make(code: str = "", **changes: Any) -> SidecarHarness:
        found = find_program(
            sys.executable,
            ("-I", "-S", str(file), code),
            cwd=str(tmp_path),
            interpreter_dir=Path(sys.executable).parent,
            path_env="/usr/bin:/bin",
        )
        assert found is not None
        trial = CheckTarget(
            **{
                "program": found,
                "tool": "good.tool",
                "input": GIVEN,
                "persistent": True,
                "cwd": str(tmp_path),
                "project_dir": str(tmp_path),
                "environ": {"HOME": str(tmp_path)},
                **changes,
            }
        )
        folder = tmp_path / "runs"
        folder.mkdir()
        return SidecarHarness(trial, folder)

    return make


@contextmanager
def spoiled(checks: list[Check], name: str, state: CheckState = CheckState.FAIL) -> Iterator[Check]:
    """The check of that name, which is in that state and says what to do."""
    [found] = [check for check in checks if check.name == name]
    assert found.state is state, checks
    assert found.fix
    yield found


async def all_of(checks: AsyncIterator[Check]) -> list[Check]:
    return [check async for check in checks]


async def first_call(bench: SidecarHarness) -> list[Check]:
    heard = await bench.run(bench.job())
    return [judge_answer(heard), *judge_rest(heard, persistent=True)]


async def test_a_good_program_passes_everything(bench: Any) -> None:
    checks = await all_of(check_contract(bench(input={"text": "slow"}, tool="").target))
    assert [check for check in checks if check.state is not CheckState.OK] == []
    assert len(checks) == len({check.name for check in checks}) == 27


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("answer", "say = lambda value: None", "empty"),
        ("answer", "work = lambda request: sys.exit(3)", "exited with 3"),
        ("answer", "work = lambda request: {}['x']", "KeyError"),
        ("answer", "loop = lambda: (say({'ok': True}), 1)[1]", "exited with 1"),
        ("answer", "loop = lambda: os.kill(os.getpid(), 11)", "SIGSEGV"),
        ("stdout", "before = lambda request: print('hello', flush=True)", "bytes before"),
        ("stdout", "loop = lambda: (say({'ok': True}), say({'ok': True}), 0)[2]", "bytes after"),
        ("events", "before = lambda request: say({'event': 'progress', 'progress': 'much'})", "not a number"),
        (
            "artifacts",
            "work = lambda request: {'ok': True, 'artifacts': [{'path': '/etc/passwd'}]}",
            "passwd",
        ),
        (
            "children",
            "import subprocess; before = lambda request: subprocess.Popen(['sleep', '600'])",
            "1 processes",
        ),
    ],
)
async def test_a_call_that_goes_wrong(bench: Any, name: str, code: str, said: str) -> None:
    with spoiled(await first_call(bench(code)), name) as check:
        assert said in check.message


async def test_a_call_that_is_not_answered_ends_the_check(bench: Any) -> None:
    checks = await all_of(check_contract(bench("loop = lambda: time.sleep(600)", patience_ms=500).target))
    assert [check.name for check in checks] == ["answer", "stdout", "events", "artifacts", "children"]
    with spoiled(checks, "answer") as check:
        assert "timeout" in check.message


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("work = lambda request: refuse('unavailable')", "unavailable"),
        ("work = lambda request: refuse('no-luck')", "no-luck"),
        ("work = lambda request: {'ok': True, 'filler': 'x' * 2_000_000}", "the usual limit"),
    ],
)
async def test_an_answer_that_is_looked_at(bench: Any, code: str, said: str) -> None:
    with spoiled(await first_call(bench(code)), "answer", CheckState.WARN) as check:
        assert said in check.message


@pytest.mark.parametrize(
    ("name", "state", "code"),
    [
        ("unknown keys", "fail", "before = lambda request: {}['x'] if 'fromTomorrow' in request else None"),
        (
            "unknown keys",
            "warn",
            "work = lambda request: refuse('strange') if 'x' in request else {'ok': True}",
        ),
        ("elsewhere", "fail", "before = lambda request: os.environ['HOME']"),
        ("elsewhere", "fail", "before = lambda request: os.stat('program.py')"),
        ("big request", "fail", "lines = [os.read(0, 65536)]; not_asked = lambda line: sys.exit(1)"),
        ("unknown tool", "fail", "unknown = lambda request: {}['x']"),
        ("unknown tool", "warn", "unknown = work"),
        ("term", "fail", f"{DEAF}; work = lambda request: say({{'event': 'log'}}) or time.sleep(600)"),
    ],
)
async def test_a_call_under_other_circumstances(bench: Any, name: str, state: str, code: str) -> None:
    made = bench(code)
    first = RunOutcome(status=Status.SUCCESS)
    [call] = [call for call in OTHER_CALLS if call.__name__ == NAMES[name]]
    with spoiled([await call(made, first)], name, CheckState(state)):
        pass


@pytest.mark.parametrize(
    ("kind", "state", "code"),
    [
        ("not JSON", "fail", "not_asked = lambda line: os.kill(os.getpid(), 11)"),
        ("not JSON", "fail", "not_asked = lambda line: print('what?', flush=True) or sys.exit(0)"),
        ("not JSON", "warn", "not_asked = lambda line: {'ok': True}"),
        ("no fields", "warn", "not_asked = lambda line: sys.exit('what?')"),
        ("fields of wrong types", "warn", "not_asked = lambda line: sys.exit(0)"),
        ("an empty input", "warn", "invalid = lambda request: {}['x']"),
        ("an input of wrong types", "fail", "invalid = lambda request: time.sleep(600)"),
        ("an empty stdin", "fail", "main = lambda: loop() or time.sleep(600)"),
        ("a closed stdin", "fail", "lines = sys.stdin.buffer if sys.stdin else time.sleep(600)"),
    ],
)
async def test_a_misuse(bench: Any, kind: str, state: str, code: str) -> None:
    made = bench(code, patience_ms=300 if "600" in code else 30_000)
    with spoiled([await try_bad_request(made, MISUSES[kind])], f"bad input: {kind}", CheckState(state)):
        pass


@pytest.mark.parametrize(
    ("name", "state", "code"),
    [
        ("probe by --probe", "fail", "probe = lambda: time.sleep(600)"),
        ("probe by request", "fail", "probe = lambda: {'ok': True, 'status': 'fine'}"),
        ("probe by request", "fail", "probe = lambda: os.kill(os.getpid(), 11)"),
        ("probe by request", "warn", "probe = lambda: {'ok': True, 'text': 'done'}"),
        ("probe by request", "warn", "probe = lambda: refuse('unavailable')"),
        ("probe by --probe", "warn", "probe = lambda: {}['x']"),
        ("schema", "fail", "schema = lambda: {'name': 'good', 'tools': [{'name': 'good.tool'}]}"),
    ],
)
async def test_what_it_says_of_itself(bench: Any, name: str, state: str, code: str) -> None:
    made = bench(code)
    if name == "schema":
        check = (await describe(made))[0]
    else:
        mode = ProbeMode.COMMAND if name.endswith("--probe") else ProbeMode.REQUEST
        check = judge_probe(mode, await probe_sidecar(made.job(), mode, 200 if "600" in code else 20_000))
    with spoiled([check], name, CheckState(state)):
        pass


@pytest.mark.parametrize(
    ("name", "state", "code", "said"),
    [
        ("two requests", "fail", "say = lambda v: print(json.dumps({'ok': True}), flush=True)", "requestId"),
        ("two requests", "fail", "lines = [sys.stdin.buffer.readline()]", ""),
        (
            "two requests",
            "fail",
            'lines = (line.replace(b\'"cancel"\', b\'"input": 1, "tool"\') for line in sys.stdin.buffer)',
            "the second",
        ),
        ("an empty input", "fail", "invalid = lambda request: {}['x']", "KeyError"),
        ("an input of wrong types", "fail", "invalid = lambda request: sys.exit(0)", "exited"),
        ("an unknown tool", "fail", "unknown = lambda request: sys.exit(0)", "exited"),
        ("cancel", "warn", "", "before it could be cancelled"),
        ("cancel", "fail", SLEEPER, "no answer within"),
        ("leaves", "fail", "main = lambda: loop() or time.sleep(600)", "still ran"),
        ("leaves", "warn", "main = lambda: loop() or 4", "exited with 4"),
    ],
)
async def test_a_process_that_stays(bench: Any, name: str, state: str, code: str, said: str) -> None:
    with spoiled(await all_of(check_persistent(bench(code))), f"stays: {name}", CheckState(state)) as check:
        assert said in check.message


@each_row(
    ("line", "fault"),
    [
        (b'{"event": "progress", "progress": 1, "total": 2, "message": "x"}', ""),
        (b'{"event": "log", "level": "warning", "message": "x"}', ""),
        (b'{"event": "busy", "busy": true}', ""),
        (b'{"ok": true, "event": "party"}', ""),
        (b'{"event": "party"}', "neither"),
        (b'{"event": "progress", "progress": true}', "not a number"),
        (b'{"event": "progress", "progress": 3, "total": 2}', "between 0"),
        (b'{"event": "progress", "progress": 1, "total": "2"}', "total"),
        (b'{"event": "log", "message": 1}', "message"),
        (b'{"event": "log", "level": "loud"}', "level"),
        (b'{"event": "busy"}', "busy"),
        (b'{"event": "log", "message": NaN}', "NaN"),
        (b'{"event": "log", "message": "%s"}' % (b"x" * 70_000), "longer"),
    ],
)
def test_events_are_read_strictly(line: bytes, fault: str) -> None:
    faults = event_faults(line + b'\n{"ok": true}\n', persistent=True)
    assert (fault in faults[0]) if fault else faults == ()


def test_a_busy_event_is_for_those_that_stay() -> None:
    assert event_faults(b'{"event": "busy", "busy": true}', persistent=False)


@each_row(
    ("fields", "count"),
    [
        ({}, 0),
        ({"status": "degraded"}, 0),
        ({"status": "fine"}, 1),
        ({"tools": []}, 1),
        ({"tools": {"a.b": "healthy"}}, 1),
        ({"tools": {"a.b": {"status": "healthy"}}}, 0),
        ({"tools": {"a.b": {}}}, 1),
        ({"tools": {"a.b": {"status": "unavailable"}}}, 2),
        ({"tools": {"a.b": {"status": "unavailable", "reason": "r", "remedy": "m"}}}, 0),
    ],
)
def test_probes_are_read_as_the_catalog_reads_them(fields: Any, count: int) -> None:
    assert len(probe_faults(fields)) == count


@each_row(
    ("document", "found"),
    [
        (b"usage: program", None),
        (b'{"ok": false}', None),
        (b'{"name": "s", "tools": []}', ((), 0)),
        (b'{"name": "s", "tools": 1}', ((), 1)),
        (b'{"name": "s", "tools": [1]}', ((), 1)),
        (b'{"name": "s", "tools": [{"name": "a.b", "description": "", "inputSchema": {}}]}', (("a.b",), 0)),
        (
            b'{"name": "s", "tools": [{"name": "a", "description": "", "inputSchema": {"type": "no"}}]}',
            (("a",), 1),
        ),
        (b'{"name": "t", "parameters": {}}', (("t",), 0)),
        (b'{"name": "t", "input_schema": {"type": "object"}}', (("t",), 0)),
        (b'{"name": "t"}', (("t",), 1)),
    ],
)
def test_schemas_in_every_shape(document: bytes, found: Any) -> None:
    read = read_schema(document)
    assert (read and (read[0], len(read[1]))) == found
