"""Processes that stay, as real ones: what they answer, what they get wrong, and that nobody outlives them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from flycore.model.enums import Code, Status
from flycore.runners.one_shot import ProcessJsonJob, RunOutcome, call_sidecar
from flycore.runners.pool import FIRST_PAUSE_S, ProcessKey, ProcessPool
from flycore.runners.protocol import AnswerLine, BusyLine, ProtocolViolation, read_line
from flysafe.procfs import read_process
from kits.kernel import until
from kits.started_children import started_children

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

LOOP = """import json, os, signal, sys, time
def say(value):
    os.write(1, json.dumps(value).encode() + b"\\n")
def answer(**more):
    say({"ok": True, "requestId": request["requestId"], "pid": os.getpid(), **more})
count = 0
for line in sys.stdin:
    request = json.loads(line)
    given = request.get("input", {})
    count += 1
    %s
"""


@dataclass
class Clock:
    """Seconds that pass when a test says so."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Pool:
    """A pool whose keeper runs, with the clock it goes by."""

    pool: ProcessPool
    clock: Clock
    sidecar: Callable[..., ProcessJsonJob]
    waited: list[str]
    holding: set[str]

    async def call(self, code: str, key: ProcessKey | None = None, **fields: Any) -> RunOutcome:
        idle_ms, instances = fields.pop("idle_ms", 60_000), fields.pop("instances", 1)
        on_event = fields.pop("on_event", None)
        hold = self.pool.slot(key or KEY, instances=instances, idle_ms=idle_ms, on_wait=self.waited.append)
        async with hold as place:
            return await place.call(self.sidecar(LOOP % code, **fields), on_event)


KEY = ProcessKey(sidecar="a.sidecar", program="p", entry="e", permissions="none", level="none", caller="one")


@pytest.fixture
def make(sidecar: Callable[..., ProcessJsonJob]) -> Any:
    @asynccontextmanager
    async def pool() -> AsyncIterator[Pool]:
        clock, holding = Clock(), {"e", "f"}
        made = ProcessPool(clock, lambda key: key.entry in holding)
        async with anyio.create_task_group() as group:
            group.start_soon(made.run)
            try:
                yield Pool(made, clock, sidecar, [], holding)
            finally:
                await made.close()
                group.cancel_scope.cancel()

    return pool


def pid_of(outcome: RunOutcome) -> int:
    assert outcome.status is Status.SUCCESS, outcome
    assert isinstance(outcome.output, dict)
    pid = outcome.output["pid"]
    assert isinstance(pid, int)
    return pid


async def gone(pid: int) -> None:
    await until(lambda: read_process(pid) is None)


async def test_one_process_serves_many_calls_with_events_and_its_own_stderr(make: Any) -> None:
    events: list[str] = []
    code = 'say({"event": "log", "message": str(count)}); os.write(2, b"e%d" % count); answer(n=count)'
    async with make() as pool:
        outcomes = [
            await pool.call(code, on_event=lambda event: events.append(event.message)) for _ in range(3)
        ]
    assert len({pid_of(outcome) for outcome in outcomes}) == 1
    assert [outcome.output["n"] for outcome in outcomes] == [1, 2, 3]
    assert "requestId" not in outcomes[0].output
    assert events == ["1", "2", "3"]
    assert [outcome.stderr_tail for outcome in outcomes] == ["e1", "e2", "e3"]


async def test_a_thousand_calls_one_process_no_descriptor_more(make: Any) -> None:
    async with make() as pool:
        pids = {pid_of(await pool.call("answer()"))}
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(1_000):
            pids.add(pid_of(await pool.call("answer()")))
        assert len(os.listdir("/proc/self/fd")) <= before
    assert len(pids) == 1


async def test_failures_are_answers_and_keep_the_process(make: Any) -> None:
    bad = 'say({"ok": False, "requestId": request["requestId"], "code": "unavailable", "error": "no engine"})'
    async with make() as pool:
        first = await pool.call("bad() if given else answer()".replace("bad()", bad), input={"x": 1})
        second = await pool.call("answer()")
    assert (first.status, first.message) == (Status.UNAVAILABLE, "no engine")
    assert second.status is Status.SUCCESS


BREACHES = {
    "another's id": ('say({"ok": True, "requestId": "x"})', Code.INVALID_OUTPUT),
    "no id": ('say({"ok": True})', Code.INVALID_OUTPUT),
    "garbage": ('os.write(1, b"this is no JSON {\\n")', Code.INVALID_OUTPUT),
    "ok is a word": ('answer(ok="yes")', Code.INVALID_OUTPUT),
    "invalid UTF-8": ('os.write(1, b\'{"ok": true, "x": "\\xff"}\\n\')', Code.INVALID_OUTPUT),
    "closes stdout": ("os.close(1); time.sleep(600)", Code.INVALID_OUTPUT),
    "1 GB in one line": ("for _ in range(1024): os.write(1, b'x' * 1048576)", Code.OUTPUT_LIMIT),
    "1 GB of events": ("while True: say({'event': 'log', 'message': 'x' * 60_000})", Code.OUTPUT_LIMIT),
    "exits": ("os._exit(3)", Code.CRASHED),
    "leaves in order": ("os._exit(0)", Code.CRASHED),
    "segfault": ("os.kill(os.getpid(), signal.SIGSEGV)", Code.CRASHED),
    "half a line, then dies": ("os.write(1, b'{\"ok\": tr'); os._exit(0)", Code.CRASHED),
    "half a line, then nothing": ("os.write(1, b'{\"ok\": tr'); time.sleep(600)", Code.TIMEOUT),
    "stops itself": ("os.kill(os.getpid(), signal.SIGSTOP)", Code.TIMEOUT),
    "kills its group": ("os.killpg(0, signal.SIGKILL)", Code.CRASHED),
}


@pytest.mark.parametrize("name", BREACHES)
async def test_whoever_breaks_the_contract_is_ended_and_replaced(name: str, make: Any) -> None:
    code, error = BREACHES[name]
    slow = error == Code.TIMEOUT
    async with make() as pool:
        first = pid_of(await pool.call(f"answer() if not given else None\n    if given:\n     {code}"))
        outcome = await pool.call("", input={"now": 1}, timeout_ms=100 if slow else 60_000)
        assert (outcome.status, outcome.code) == (Status.FAILED, error), outcome
        await gone(first)
        assert pid_of(await pool.call("answer()")) != first


@pytest.mark.parametrize(
    "more",
    [
        "answer()",  # twice
        'say({"ok": True, "requestId": "next"})',  # early
        'os.write(1, b"x")',  # the beginning of another
        'os.write(1, b"\\n" * 200_000)',
    ],
)
async def test_what_is_said_unasked_ends_the_process_but_not_the_answer(make: Any, more: str) -> None:
    async with make() as pool:
        pid = pid_of(await pool.call(f"answer(); {more}; open('mark', 'w').close()"))
        mark = Path(pool.sidecar("").cwd) / "mark"
        await until(lambda: mark.exists() or read_process(pid) is None)
        assert pid_of(await pool.call("answer()")) != pid


async def test_an_answer_given_in_advance_answers_nothing(make: Any) -> None:
    """A process that knows how ids are made answers the next call before it is asked."""
    code = (
        "answer(); say({'ok': True, 'requestId': given['next'], 'forged': True}); open('mark', 'w').close()"
    )
    async with make() as pool:
        first = await pool.call(code, input={"next": "the-next-one"})
        mark = Path(pool.sidecar("").cwd) / "mark"
        await until(lambda: mark.exists() or read_process(pid_of(first)) is None)
        second = await pool.call("answer()", call_id="the-next-one")
    assert first.status is Status.SUCCESS
    assert pid_of(first) != pid_of(second)


async def test_cancel_is_told_and_a_process_that_heeds_it_stays(make: Any) -> None:
    code = (
        "started = given.get('mark') and open(given['mark'], 'w').close()\n"
        "    if given.get('mark'):\n"
        "     told = json.loads(sys.stdin.readline())\n"
        "     assert told == {'cancel': request['requestId']}, told\n"
        "    answer()"
    )
    async with make() as pool:
        pid = pid_of(await pool.call(code))
        folder = Path(pool.sidecar("").cwd)
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: pool.call(code, input={"mark": str(folder / "mark")}))
            await until((folder / "mark").exists)
            group.cancel_scope.cancel()
        assert pid_of(await pool.call(code)) == pid
        late = await pool.call(code, input={"mark": str(folder / "mark")}, timeout_ms=50)
        assert (late.status, late.code) == (Status.FAILED, Code.TIMEOUT)
        assert pid_of(await pool.call(code)) == pid


async def test_one_that_does_not_heed_cancel_is_ended_with_its_children(make: Any) -> None:
    code = (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); child = os.fork() or time.sleep(600)\n"
        "    os.write(2, b'%d' % child); time.sleep(600)"
    )
    async with make() as pool:
        outcome = await pool.call(code, timeout_ms=200)
    assert outcome.code == Code.TIMEOUT
    await gone(int(outcome.stderr_tail))


async def test_calls_of_one_key_stand_in_line_and_never_share_with_another(make: Any) -> None:
    code = "time.sleep(0.05); answer()"
    other = msgspec.structs.replace(KEY, caller="two")
    async with make() as pool:
        pids: dict[str, set[int]] = {"one": set(), "two": set()}

        async def call(key: ProcessKey) -> None:
            pids[key.caller].add(pid_of(await pool.call(code, key)))

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(call, (KEY, other)[number % 2])
    assert [len(found) for found in pids.values()] == [1, 1]
    assert pids["one"].isdisjoint(pids["two"])
    assert any("another call" in words for words in pool.waited)


async def test_as_many_processes_as_the_entry_says(make: Any) -> None:
    pids: list[int] = []
    async with make() as pool:

        async def call() -> None:
            pids.append(pid_of(await pool.call("time.sleep(0.05); answer()", instances=3)))

        async with anyio.create_task_group() as group:
            for _ in range(9):
                group.start_soon(call)
    assert len(set(pids)) == 3


@pytest.mark.parametrize("field", ["program", "entry"])
async def test_another_program_or_entry_ends_the_processes_of_the_old_one(make: Any, field: str) -> None:
    async with make() as pool:
        pid = pid_of(await pool.call("answer()"))
        other = pid_of(await pool.call("answer()", msgspec.structs.replace(KEY, caller="two")))
        new = pid_of(await pool.call("answer()", msgspec.structs.replace(KEY, **{field: "f"})))
        assert len({pid, other, new}) == 3
        await gone(pid)
        await gone(other)
        assert pid_of(await pool.call("answer()", msgspec.structs.replace(KEY, **{field: "f"}))) == new


@pytest.mark.parametrize("field", ["permissions", "level"])
async def test_other_permissions_or_another_level_get_another_process(make: Any, field: str) -> None:
    async with make() as pool:
        pid = pid_of(await pool.call("answer()"))
        assert pid_of(await pool.call("answer()", msgspec.structs.replace(KEY, **{field: "f"}))) != pid
        assert pid_of(await pool.call("answer()")) == pid


async def test_a_key_that_holds_no_longer_ends_what_rests_and_what_is_asked(make: Any) -> None:
    async with make() as pool:
        pid = pid_of(await pool.call("answer()"))
        pool.holding.clear()
        pool.pool.review()
        await gone(pid)
        asked = pid_of(await pool.call("answer()"))  # under the entry it began with
        await gone(asked)


async def test_idle_ends_by_the_clock_handed_in_unless_it_says_it_is_busy(make: Any) -> None:
    busy = 'say({"event": "busy", "busy": given["busy"]}); answer()'
    async with make() as pool:
        pid = pid_of(await pool.call(busy, input={"busy": True}, idle_ms=500))
        pool.clock.now += 600
        await pool.pool.tidy()
        assert pid_of(await pool.call(busy, input={"busy": False}, idle_ms=500)) == pid
        pool.clock.now += 0.4
        await pool.pool.tidy()
        assert pid_of(await pool.call(busy, input={"busy": False}, idle_ms=500)) == pid
        pool.clock.now += 0.5
        await pool.pool.tidy()
        await gone(pid)


async def test_killed_between_calls_and_killed_within_one(make: Any) -> None:
    async with make() as pool:
        first = pid_of(await pool.call("answer()"))
        os.kill(first, signal.SIGKILL)
        await gone(first)
        second = pid_of(await pool.call("os.kill(os.getpid(), signal.SIGKILL) if given else answer()"))
        assert second != first
        outcome = await pool.call("", input={"die": 1})
        assert (outcome.code, outcome.exit_code) == (Code.CRASHED, -9)


async def test_each_death_makes_the_next_start_wait_longer_until_an_answer(make: Any) -> None:
    slept: list[float] = []
    async with make() as pool:
        with pytest.MonkeyPatch.context() as patch:

            async def sleep(seconds: float) -> None:
                slept.append(seconds)
                pool.clock.now += seconds

            patch.setattr("flycore.runners.pool.anyio.sleep", sleep)
            for _ in range(3):
                await pool.call("os._exit(1)")
            await pool.call("answer()")
        pids = {pid_of(await pool.call("answer()")) for _ in range(2)}
    assert slept == [pytest.approx(FIRST_PAUSE_S * 2**n) for n in range(3)]
    assert len(pids) == 1


async def test_halting_ends_what_rests_and_what_is_asked_without_the_grace_of_cancel(make: Any) -> None:
    async with make() as pool:
        resting = pid_of(await pool.call("answer()", msgspec.structs.replace(KEY, caller="two")))
        outcomes: list[RunOutcome] = []

        async def hang() -> None:
            hang = "say({'event': 'log', 'message': 'on'}); time.sleep(600)"
            outcomes.append(await pool.call(hang, on_event=lambda _: started.set()))

        started = asyncio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(hang)
            await started.wait()
            await pool.pool.halt()
            await gone(resting)
        assert outcomes[0].code == Code.CRASHED


async def test_a_large_request_and_a_large_answer_pass(make: Any) -> None:
    async with make() as pool:
        for _ in range(2):
            outcome = await pool.call(
                "answer(text=given['text'])", input={"text": "x" * 3_000_000}, max_output_bytes=4_000_000
            )
            assert len(outcome.output["text"]) == 3_000_000


async def test_one_that_cannot_be_started_is_said(make: Any) -> None:
    async with make() as pool:
        outcome = await pool.call("", argv=("/no/such/program",))
    assert (outcome.status, outcome.code) == (Status.FAILED, Code.SPAWN)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b'{"ok": true, "requestId": "a", "n": 1}', AnswerLine),
        (b'{"event": "busy", "busy": true}', BusyLine),
        (b'{"event": "busy", "busy": 1}', ProtocolViolation),
        (b'{"ok": true, "requestId": "b"}', ProtocolViolation),
        (b'{"ok": true, "ok": true, "requestId": "a"}', ProtocolViolation),
        (b"[]", ProtocolViolation),
        (b"  ", type(None)),
    ],
)
def test_lines(line: bytes, kind: type) -> None:
    assert isinstance(read_line(line, "a"), kind)


HIDDEN = """import os
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.closerange(0, 64)
    os.execve('/bin/sleep', ['sleep', '600'], {})
os.wait()
os.write(1, b'{"ok": true}\\n')
"""


async def test_a_process_that_stays_is_no_shield_for_what_a_call_leaves_behind(make: Any) -> None:
    before = started_children()  # such as the processes that start commands for other tests
    async with make() as pool:
        staying = pid_of(await pool.call("answer()"))
        outcome = await call_sidecar(pool.sidecar(HIDDEN))
        assert (outcome.status, outcome.survivors) == (Status.SUCCESS, 0)
        assert started_children() - before == {staying}
        assert pid_of(await pool.call("answer()")) == staying
