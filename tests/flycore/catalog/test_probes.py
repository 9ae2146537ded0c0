"""Probes: how an answer is read, how many run at once, and what is remembered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from flycore.catalog.prober import AT_ONCE, Prober
from flycore.catalog.probes import (
    KEPT,
    SKIPPED,
    ProbeAnswer,
    ProbeCache,
    ProbeWork,
    probe_mode,
    read_answer,
    work_key,
)
from flycore.model.enums import ProbeMode, ProbeState
from flycore.model.json import Json, JsonObject
from flycore.model.program import ResolvedProgram
from flycore.model.sidecar import Permissions, Probe, SidecarEntry

MakeEntry = Callable[..., SidecarEntry]
MakeProgram = Callable[..., ResolvedProgram]
REQUESTED = Probe(mode=ProbeMode.REQUEST)
GOOD = ProbeAnswer(ok=True)


@pytest.mark.parametrize(
    ("answer", "state", "code"),
    [
        (GOOD, "healthy", None),
        (ProbeAnswer(ok=True, fields={"status": "healthy"}), "healthy", None),
        (ProbeAnswer(ok=True, fields={"status": "degraded", "reason": "half"}), "degraded", "probe-degraded"),
        (ProbeAnswer(ok=True, fields={"status": "odd"}), "degraded", "probe-degraded"),
        (ProbeAnswer(ok=True, fields={"status": ["x"]}), "degraded", "probe-degraded"),
        (ProbeAnswer(ok=True, fields={"status": "unavailable"}), "unavailable", "probe-unavailable"),
        (ProbeAnswer(ok=True, duration_ms=1000), "healthy", None),
        (ProbeAnswer(ok=True, duration_ms=1001), "degraded", "probe-slow"),
        (ProbeAnswer(ok=False, code="unavailable", error="no browser"), "unavailable", "tool-unavailable"),
        (ProbeAnswer(ok=False, code="failed", error="broken"), "unavailable", "probe-unavailable"),
        (ProbeAnswer(ok=False, timed_out=True), "unavailable", "probe-timeout"),
        (ProbeAnswer(ok=False, crashed=True), "unavailable", "probe-unavailable"),
        (ProbeAnswer(ok=True, crashed=True), "unavailable", "probe-unavailable"),
    ],
)
def test_answer(make_entry: MakeEntry, answer: ProbeAnswer, state: str, code: str | None) -> None:
    found = read_answer(make_entry(), answer, timeout_ms=2000, at=5.0)
    assert found.state == state
    assert (found.reason.code if found.reason else None) == code
    assert found.reason is None or (found.reason.message and found.reason.remedy)
    assert found.evidence is not None
    assert found.evidence.at == 5.0


def test_sidecars_own_words_are_told(make_entry: MakeEntry) -> None:
    answer = ProbeAnswer(ok=False, code="unavailable", error="no browser", fields={"remedy": "start one"})
    found = read_answer(make_entry(), answer, timeout_ms=2000, at=0.0)
    assert found.reason is not None
    assert (found.reason.message, found.reason.remedy) == ("no browser", "start one")


@pytest.mark.parametrize(
    ("said", "status", "code"),
    [
        ({"status": "healthy"}, "healthy", None),
        ({"status": "available"}, "healthy", None),
        ({"status": "unavailable", "code": "delegate-missing"}, "unavailable", "delegate-missing"),
        ({"status": "unavailable", "code": "folder-untrusted"}, "unavailable", None),
        ({"status": "unavailable", "code": 7}, "unavailable", None),
        ({"status": "odd"}, "degraded", None),
        ({"status": 7}, "degraded", None),
        ({}, "degraded", None),
    ],
)
def test_tools_of_an_answer(make_entry: MakeEntry, said: JsonObject, status: str, code: str | None) -> None:
    answer = ProbeAnswer(
        ok=True, fields={"tools": {"file.hash": said, "not.mine": {"status": "unavailable"}}}
    )
    evidence = read_answer(make_entry(), answer, timeout_ms=2000, at=0.0).evidence
    assert evidence is not None
    assert list(evidence.tools) == ["file.hash"]
    assert (evidence.tools["file.hash"].status, evidence.tools["file.hash"].code) == (status, code)


@pytest.mark.parametrize("told", [None, 3, [], "x", {"file.hash": 3}, {"file.hash": None}])
def test_tools_of_another_shape_are_left_out(make_entry: MakeEntry, told: Json) -> None:
    evidence = read_answer(
        make_entry(), ProbeAnswer(ok=True, fields={"tools": told}), timeout_ms=1, at=0.0
    ).evidence
    assert evidence is not None
    assert evidence.tools == {}


def test_words_are_bounded(make_entry: MakeEntry) -> None:
    long = "x" * 1_000_000
    tool: JsonObject = {"status": "unavailable", "reason": long, "remedy": long}
    answer = ProbeAnswer(
        ok=False, error=long, stderr_tail=long, fields={"remedy": long, "tools": {"file.hash": tool}}
    )
    assert len(msgspec.json.encode(read_answer(make_entry(), answer, timeout_ms=1, at=0.0))) < 8_000


@pytest.mark.parametrize(
    ("sidecar", "mode", "bundled", "asked"),
    [
        ("mock.echo", ProbeMode.DEFAULT, True, ProbeMode.REQUEST),
        ("mock.echo", ProbeMode.DEFAULT, False, None),
        ("mine", ProbeMode.DEFAULT, True, None),
        ("mine", ProbeMode.COMMAND, False, ProbeMode.COMMAND),
        ("mine", ProbeMode.REQUEST, False, ProbeMode.REQUEST),
        ("mock.echo", ProbeMode.OFF, True, None),
    ],
)
def test_who_is_asked(
    make_entry: MakeEntry,
    make_program: MakeProgram,
    sidecar: str,
    mode: ProbeMode,
    bundled: bool,
    asked: ProbeMode | None,
) -> None:
    entry = make_entry(sidecar, probe=Probe(mode=mode))
    assert probe_mode(ProbeWork(entry=entry, program=make_program(), bundled=bundled)) is asked


def test_entry_without_tools_is_not_asked(make_entry: MakeEntry, make_program: MakeProgram) -> None:
    work = ProbeWork(entry=make_entry(tools=(), probe=REQUESTED), program=make_program())
    assert probe_mode(work) is None


class Clock:
    """Unix time that a test moves."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at


class Spawner:
    """Stands at the spawn seam: counts, and answers when told to."""

    def __init__(self, answer: ProbeAnswer = GOOD) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str, ProbeMode, int]] = []
        self.running = self.most = 0
        self.gate = anyio.Event()

    def open(self) -> Spawner:
        self.gate.set()
        return self

    async def __call__(self, entry: SidecarEntry, tool: str, mode: ProbeMode, timeout_ms: int) -> ProbeAnswer:
        self.asked.append((entry.id, tool, mode, timeout_ms))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate.wait()
        finally:
            self.running -= 1
        return self.answer


def _work(entry: SidecarEntry, program: ResolvedProgram, **fields: Any) -> ProbeWork:
    return ProbeWork(entry=entry, program=program, **fields)


@pytest.mark.anyio
async def test_skipped_spawns_nothing(make_entry: MakeEntry, make_program: MakeProgram) -> None:
    spawner = Spawner().open()
    prober = Prober(spawner, ProbeCache(None), Clock().now)
    work = _work(make_entry("mine"), make_program())
    assert await prober.probe(work) is SKIPPED
    assert prober.known(work) is SKIPPED
    assert spawner.asked == []


@pytest.mark.anyio
async def test_asks_with_the_entrys_own_limit_and_remembers(
    make_entry: MakeEntry, make_program: MakeProgram
) -> None:
    spawner, clock = Spawner().open(), Clock()
    prober = Prober(spawner, ProbeCache(None), clock.now)
    work = _work(make_entry("mine", probe=Probe(mode=ProbeMode.COMMAND, timeout_ms=700)), make_program())
    assert prober.known(work) is None
    first = await prober.probe(work)
    again = await prober.probe(work)
    assert spawner.asked == [("mine", "file.hash", ProbeMode.COMMAND, 700)]
    assert (first.state, first.fresh, again.fresh) == (ProbeState.HEALTHY, True, False)
    assert prober.known(work) == again


@pytest.mark.anyio
@pytest.mark.parametrize(("answer", "holds"), [(GOOD, 600.0), (ProbeAnswer(ok=False), 30.0)])
async def test_asks_again_when_the_answer_is_old(
    make_entry: MakeEntry, make_program: MakeProgram, answer: ProbeAnswer, holds: float
) -> None:
    spawner, clock = Spawner(answer).open(), Clock()
    prober = Prober(spawner, ProbeCache(None), clock.now)
    work = _work(make_entry("mine", probe=REQUESTED), make_program())
    await prober.probe(work)
    clock.at += holds - 1
    await prober.probe(work)
    assert len(spawner.asked) == 1
    clock.at += 1
    await prober.probe(work)
    assert len(spawner.asked) == 2


@pytest.mark.anyio
async def test_forgotten_is_asked_again_once(make_entry: MakeEntry, make_program: MakeProgram) -> None:
    spawner = Spawner().open()
    prober = Prober(spawner, ProbeCache(None), Clock().now)
    work = _work(make_entry("mine", probe=REQUESTED), make_program())
    await prober.probe(work)
    prober.forget("mine")
    await prober.probe(work)
    await prober.probe(work)
    assert len(spawner.asked) == 2


@pytest.mark.anyio
async def test_a_few_at_once(make_entry: MakeEntry, make_program: MakeProgram) -> None:
    spawner = Spawner()
    prober = Prober(spawner, ProbeCache(None), Clock().now)
    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(prober.probe, _work(make_entry(f"s{number}", probe=REQUESTED), make_program()))
        await anyio.wait_all_tasks_blocked()
        assert spawner.running == AT_ONCE
        spawner.open()
    assert (len(spawner.asked), spawner.most) == (20, AT_ONCE)


@pytest.mark.anyio
async def test_same_question_is_asked_once(make_entry: MakeEntry, make_program: MakeProgram) -> None:
    spawner = Spawner()
    prober = Prober(spawner, ProbeCache(None), Clock().now)
    work = _work(make_entry("mine", probe=REQUESTED), make_program())
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(prober.probe, work)
        await anyio.wait_all_tasks_blocked()
        spawner.open()
    assert len(spawner.asked) == 1


@pytest.mark.anyio
async def test_cancelled_asker_leaves_the_question_to_the_next(
    make_entry: MakeEntry, make_program: MakeProgram
) -> None:
    spawner = Spawner()
    prober = Prober(spawner, ProbeCache(None), Clock().now)
    work = _work(make_entry("mine", probe=REQUESTED), make_program())
    async with anyio.create_task_group() as group:
        scope = anyio.CancelScope()

        async def first() -> None:
            with scope:
                await prober.probe(work)

        group.start_soon(first)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(prober.probe, work)
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
        spawner.open()
    assert len(spawner.asked) == 2
    assert prober.known(work) is not None


@pytest.mark.anyio
async def test_spawner_that_never_returns(
    make_entry: MakeEntry, make_program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flycore.catalog.prober.GRACE_S", 0.01)
    prober = Prober(Spawner(), ProbeCache(None), Clock().now)
    entry = make_entry("mine", probe=Probe(mode=ProbeMode.REQUEST, timeout_ms=10))
    found = await prober.probe(_work(entry, make_program()))
    assert found.reason is not None
    assert found.reason.code == "probe-timeout"


def _copy_of_true(folder: Path) -> str:
    path = folder / "program"
    path.write_bytes(b"#!/bin/sh\nexit 0\n")
    return str(path)


def test_key_follows_content_program_and_display(
    make_entry: MakeEntry, make_program: MakeProgram, tmp_path: Path
) -> None:
    path = _copy_of_true(tmp_path)
    program = make_program(path=path, argv=(path,))
    desktop = make_entry("d", permissions=Permissions(desktop=True))
    base = work_key(_work(desktop, program, environ={"DISPLAY": ":1"}))
    assert base == work_key(_work(desktop, program, environ={"DISPLAY": ":1", "HOME": "/x"}))
    others = [
        work_key(_work(desktop, program, environ={"DISPLAY": ":2"})),
        work_key(_work(msgspec.structs.replace(desktop, digest="other"), program, environ={"DISPLAY": ":1"})),
        work_key(_work(desktop, program, environ={"DISPLAY": ":1"}, delegates={"mouse": program})),
        work_key(
            _work(msgspec.structs.replace(desktop, pass_env=("A",)), program, environ={"DISPLAY": ":1"})
        ),
    ]
    Path(path).write_bytes(b"#!/bin/sh\nexit 1 # swapped\n")
    others.append(work_key(_work(desktop, program, environ={"DISPLAY": ":1"})))
    assert len({base, *others}) == 6


@pytest.mark.anyio
async def test_answers_outlive_the_process(
    make_entry: MakeEntry, make_program: MakeProgram, tmp_path: Path
) -> None:
    folder, clock = tmp_path / "cache", Clock()
    work = _work(make_entry("mine", probe=REQUESTED), make_program())
    await Prober(Spawner().open(), ProbeCache(folder), clock.now).probe(work)
    assert (folder / "probes.json").stat().st_mode & 0o777 == 0o600
    later = Spawner().open()
    found = await Prober(later, ProbeCache(folder), clock.now).probe(work)
    assert (found.state, later.asked) == (ProbeState.HEALTHY, [])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"version": 9, "answers": {}}',
        b'{"version": 1, "answers": {"a": 1}}',
        b"\xff" * 100,
    ],
)
def test_broken_cache_is_an_empty_one(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "probes.json").write_bytes(content)
    cache = ProbeCache(tmp_path)
    assert cache.get("a") is None
    cache.put("a", SKIPPED)
    assert cache.get("a") is SKIPPED


def test_cache_that_cannot_be_written_stays_in_memory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    cache = ProbeCache(blocked)
    cache.put("a", SKIPPED)
    assert cache.save() is False
    assert cache.get("a") is SKIPPED


def test_cache_is_bounded() -> None:
    cache = ProbeCache(None)
    for number in range(KEPT + 10):
        cache.put(str(number), SKIPPED)
    assert cache.get("9") is None
    assert cache.get("10") is SKIPPED
