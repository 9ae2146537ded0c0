"""History, metrics and the fatigue report are the log's and nothing else's."""

from __future__ import annotations

import json
import os
import random
import statistics
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from flycore.audit.log import OnLine
from flycore.audit.metrics import MOST_PAIRS, MOST_TOOLS, NO_SUCH_TOOL, OTHERS, DurationHistogram
from flycore.audit.projection import Projection, approvals, history, metrics
from flycore.audit.query import tail
from flycore.audit.record import TimeRange
from flycore.model.approval import NamedPlaces, PastUse
from flycore.model.audit import ToolMetrics
from flycore.model.call import Caller
from kits.tables import each_row

FULL = os.environ.get("FLYTUI_SUITES") == "full"
LOGS = 200 if FULL else 12
CALLERS = [f"socket:/usr/bin/agent-{name}" for name in "ab"]


class Writer:
    """Writes calls into a log as the kernel does, in any order."""

    def __init__(self, site: Any, seed: int = 0, on_line: OnLine | None = None) -> None:
        self.site = site
        self.log = site.open(on_line)
        self.chance = random.Random(seed)
        self.under_way: list[dict[str, Any]] = []
        self.calls = 0

    def begin(self, tool: str = "a.tool", caller: str = CALLERS[0], pid: int = 7) -> dict[str, Any]:
        self.calls += 1
        call = {
            "callId": f"c-{self.calls}",
            "tool": tool,
            "caller": f"agent (pid {pid}) via socket",
            "callerKey": f"{caller}:{pid}:99",
        }
        self.log.append("TOOL_CALLED", {**call, "input": {"x": 1}})
        return call

    def ask(self, call: dict[str, Any]) -> None:
        self.log.append("APPROVAL_ASKED", {**call, "requestId": f"r-{call['callId']}", "risk": "high"})

    def decide(self, call: dict[str, Any], decision: str, took_ms: int = 0, **more: Any) -> None:
        fields = {"requestId": f"r-{call['callId']}", "decision": decision, "tookMs": took_ms, **more}
        self.log.append("APPROVAL_DECIDED", {**call, **fields})

    def start(self, call: dict[str, Any]) -> None:
        self.log.append("TOOL_STARTED", {**call, "sidecar": "s", "level": "none", "authority": "lease 1"})

    def end(self, call: dict[str, Any], status: str = "success", ms: int | None = None, **more: Any) -> None:
        ran = {} if ms is None else {"level": "none", "durationMs": ms}
        self.log.append("TOOL_EXECUTED", {**call, "status": status, **ran, **more})

    def anything(self) -> None:
        """One random line, as likely to be odd as not."""
        chance = self.chance
        self.site.now += chance.choice([0.1, 60, 3_000, 86_400])
        self.site.mono += 1
        roll = chance.random()
        if roll < 0.3 or not self.under_way:
            self.under_way.append(self.begin(f"t{chance.randrange(6)}.\u202e", chance.choice(CALLERS)))
        elif roll < 0.5:
            self.ask(chance.choice(self.under_way))
        elif roll < 0.65:
            decision = chance.choice(["approved", "denied", "timed-out", "withdrawn", "new"])
            more = {"choice": "deny", "decidedBy": "console"} if chance.random() < 0.8 else {}
            self.decide(chance.choice(self.under_way), decision, chance.randrange(5_000), **more)
        elif roll < 0.75:
            self.start(chance.choice(self.under_way))
        elif roll < 0.95:
            call = self.under_way.pop(chance.randrange(len(self.under_way)))
            status = chance.choice(["success", "failed", "denied", "unavailable", "unknown", "pending"])
            code = (
                {} if status == "success" else {"code": chance.choice(["exit", "not-found"]), "message": "m"}
            )
            self.end(call, status, chance.choice([None, chance.randrange(10**6)]), **code)
        else:
            self.log.append("PANIC", {"tool": 5, "callId": chance.choice([None, "\ud800", "x"])})


def everything(made: Projection) -> tuple[Any, ...]:
    return made.metrics(), made.approvals(), made.history()


@pytest.mark.suite
@pytest.mark.parametrize("seed", range(LOGS))
def test_reading_on_and_reading_anew_give_the_same(
    site: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flycore.audit.log.MOST_FILE_BYTES", 6_000)
    monkeypatch.setattr("flycore.audit.query._CHUNK", 300 + seed)
    writer = Writer(site, seed)
    growing = Projection(site.folder)
    for _ in range(30):
        for _ in range(writer.chance.randrange(12)):
            writer.anything()
        growing.update()
    anew = Projection(site.folder)
    anew.update()
    assert everything(growing) == everything(anew)
    assert growing.metrics() == metrics(site.folder)
    assert growing.approvals() == approvals(site.folder)
    assert growing.history(50) == history(site.folder, limit=50)
    found = growing.metrics()
    assert sum(tool.calls for tool in found.tools) == writer.calls
    odd = [line for line in tail(site.folder, 10_000) if line["event"] == "PANIC"]
    assert found.unreadable == len(odd), "their tool is no text"


def one(site: Any, name: str) -> ToolMetrics:
    return next(tool for tool in metrics(site.folder).tools if tool.tool == name)


def test_what_is_counted_of_a_tool(site: Any) -> None:
    writer = Writer(site)
    durations = [1, 5, 20, 100, 250, 1_000, 60_000]
    for ms in durations:
        writer.end(writer.begin(), ms=ms)
    site.now += 3_600
    writer.end(writer.begin(), "failed", ms=40, code="exit", message="the sidecar exited with 3")
    site.now += 3_600
    writer.end(writer.begin(), "denied", code="denied", message="denied by a person")
    writer.end(writer.begin(), "pending")
    writer.start(writer.begin())
    found = one(site, "a.tool")
    assert (found.calls, found.success, found.failed, found.denied, found.other, found.open) == (
        11,
        7,
        1,
        1,
        1,
        1,
    )
    assert (found.ran, found.total_ms) == (8, sum(durations) + 40)
    assert found.average_ms == round((sum(durations) + 40) / 8, 1)
    assert 60_000 * 0.998 <= found.p95_ms <= 60_000
    assert found.last_executed == "2026-06-15T13:00:00.000000Z"
    assert found.last_error is not None
    assert (found.last_error.at, found.last_error.code) == ("2026-06-15T13:00:00.000000Z", "exit")


def test_names_that_callers_make_up_fill_nothing(site: Any) -> None:
    writer = Writer(site)
    for number in range(MOST_TOOLS + 50):
        writer.end(writer.begin(f"no.tool{number}"), "failed", code="not-found")
        writer.end(writer.begin(f"tool{number}"), ms=1)
        call = writer.begin(f"tool{number}", f"socket:/tmp/{number}")
        writer.ask(call)
    found = metrics(site.folder).tools
    assert one(site, NO_SUCH_TOOL).failed == MOST_TOOLS + 50
    assert one(site, OTHERS).success == 51, "one name of a thousand is that of calls to no tool"
    assert len([tool for tool in found if tool.success]) == MOST_TOOLS
    assert len(approvals(site.folder).pairs) == MOST_PAIRS + 1


def test_the_history_of_a_call(site: Any) -> None:
    writer = Writer(site)
    first = writer.begin("b.tool", CALLERS[1], 8)
    second = writer.begin()
    writer.ask(second)
    site.now += 2
    writer.decide(second, "approved", 2_000, choice="approve-once", decidedBy="console")
    writer.start(second)
    writer.end(second, "failed", ms=30, code="exit", message="no", waitedMs=2_000)
    third = writer.begin("b.tool")
    writer.ask(third)
    writer.decide(third, "denied", 900, choice="deny", decidedBy="console", reason="not now")
    writer.end(third, "denied", code="denied")
    newest, middle, oldest = history(site.folder)[1], history(site.folder)[2], history(site.folder)[0]
    assert (oldest.call_id, oldest.status, oldest.ended_at) == (first["callId"], "", ""), "still under way"
    assert (newest.decision, newest.reason, newest.took_ms, newest.level) == ("denied", "not now", 900, "")
    assert (middle.tool, middle.caller, middle.caller_key) == (
        "a.tool",
        "agent (pid 7) via socket",
        f"{CALLERS[0]}:7:99",
    )
    assert (middle.called_at, middle.ended_at) == (
        "2026-06-15T12:00:00.000000Z",
        "2026-06-15T12:00:02.000000Z",
    )
    assert (middle.risk, middle.decision, middle.decided_by, middle.took_ms) == (
        "high",
        "approved",
        "console",
        2_000,
    )
    assert (middle.status, middle.code, middle.duration_ms, middle.waited_ms) == ("failed", "exit", 30, 2_000)
    assert (middle.authority, middle.level, middle.sidecar) == ("lease 1", "none", "s")


def test_the_history_of_one_tool_and_one_caller(site: Any) -> None:
    writer = Writer(site)
    for number in range(40):
        writer.end(writer.begin(f"t{number % 2}", CALLERS[number % 4 // 2], number % 3))
    assert [item.call_id for item in history(site.folder, limit=3, tool="t1")] == ["c-40", "c-38", "c-36"]
    by_program = history(site.folder, limit=4, caller=CALLERS[1])
    assert [item.call_id for item in by_program] == ["c-40", "c-39", "c-36", "c-35"]
    by_process = history(site.folder, caller=f"{CALLERS[1]}:0:99")
    assert {item.caller_key for item in by_process} == {f"{CALLERS[1]}:0:99"}
    assert history(site.folder, tool="none") == ()


def test_a_decision_after_its_caller_left_opens_no_call(site: Any) -> None:
    writer = Writer(site)
    call = writer.begin()
    writer.ask(call)
    writer.end(call, "pending")
    writer.decide(call, "approved", 5_000, choice="approve-once")
    assert one(site, "a.tool").open == 0
    assert approvals(site.folder).total.approved == 1


def asked(writer: Writer, decision: str, took_ms: int = 0, *, caller: str = CALLERS[0], **more: Any) -> None:
    call = writer.begin(caller=caller, pid=writer.calls)
    writer.ask(call)
    writer.decide(call, decision, took_ms, **more)


def test_how_much_a_person_is_asked(site: Any) -> None:
    writer = Writer(site)
    times = [200, 999, 1_000, 4_000, 9_000]
    for took in times:
        asked(writer, "approved", took, choice="approve-once")
    site.now += 3_600
    asked(writer, "denied", 3_000, choice="deny", caller=CALLERS[1])
    asked(writer, "timed-out", 600_000)
    asked(writer, "withdrawn", 10)
    asked(writer, "denied", 0)
    site.now += 7_200
    writer.ask(writer.begin())
    report = approvals(site.folder)
    total = report.total
    assert (total.prompts, total.approved, total.denied, total.timed_out, total.withdrawn) == (9, 5, 1, 1, 1)
    assert (total.waiting, total.not_shown) == (1, 1)
    assert (total.active_hours, total.prompts_per_hour, total.busiest_hour) == (3, 3.0, 5)
    assert (total.approved_at_once, total.approved_at_once_share) == (2, 0.4)
    assert total.denied_share == round(1 / 6, 4)
    assert total.median_ms == pytest.approx(statistics.median_low([*times, 3_000]), rel=0.01)
    assert total.p95_ms == pytest.approx(9_000, rel=0.01)
    assert [(pair.caller, pair.tool, pair.prompts) for pair in report.pairs] == [
        (CALLERS[0], "a.tool", 8),
        (CALLERS[1], "a.tool", 1),
    ], "a program is one caller, however often it is started"


def test_a_flood_that_nobody_saw_is_no_prompt(site: Any) -> None:
    writer = Writer(site)
    for _ in range(1_000):
        asked(writer, "denied")
    total = approvals(site.folder).total
    assert (total.prompts, total.not_shown, total.active_hours, total.prompts_per_hour) == (0, 1_000, 0, 0.0)
    assert total.denied_share == 0


def test_a_stretch_of_time(site: Any) -> None:
    writer = Writer(site)
    start = datetime.fromtimestamp(site.now, UTC)
    writer.end(writer.begin(), ms=1)
    site.now += 86_400
    writer.end(writer.begin("b.tool"), ms=1)
    later = TimeRange(since=start.replace(day=16))
    assert [tool.tool for tool in metrics(site.folder, later).tools] == ["b.tool"]
    assert [item.tool for item in history(site.folder, span=later)] == ["b.tool"]


def test_no_log_is_nothing(site: Any) -> None:
    made = Projection(site.folder)
    made.update()
    assert everything(made)[0].tools == ()
    assert made.history() == ()
    Writer(site).begin()
    made.update()
    assert made.metrics().tools[0].open == 1


def test_half_a_line_waits_for_its_end(site: Any) -> None:
    writer = Writer(site)
    writer.end(writer.begin(), ms=1)
    whole = site.file.read_bytes()
    made = Projection(site.folder)
    seen = []
    for length in range(0, len(whole) + 1, 7):
        site.file.write_bytes(whole[:length])
        made.update()
        seen.append(made.metrics().lines)
    site.file.write_bytes(whole)
    made.update()
    assert seen == sorted(seen)
    assert made.metrics() == metrics(site.folder)
    assert (made.metrics().lines, made.metrics().unreadable) == (2, 0)


@pytest.mark.parametrize("how", ["moved aside", "cut", "rewritten", "gone"])
def test_another_log_is_read_anew(site: Any, how: str) -> None:
    writer = Writer(site)
    for _ in range(5):
        writer.end(writer.begin(), ms=1)
    made = Projection(site.folder)
    made.update()
    lines = site.lines
    if how == "moved aside":
        site.file.rename(site.folder / "kept")
        (site.folder / "2026-06.jsonl").write_bytes(b"".join(lines * 2))
    elif how == "cut":
        site.file.write_bytes(b"".join(lines[:3]))
    elif how == "rewritten":
        site.file.write_bytes(b"".join(lines[:-1]) + lines[-1].replace(b"a.tool", b"b.tool"))
    else:
        site.file.unlink()
    made.update()
    assert made.metrics() == metrics(site.folder)


def test_lines_that_are_none_are_counted(site: Any) -> None:
    writer = Writer(site)
    writer.end(writer.begin("half \ud800 pair"), ms=1)
    nested = b"[" * 100_000
    broken = (
        b"nonsense\n",
        b"[1]\n",
        b'{"event":5}\n',
        b"{}\n",
        b'{"a":' + nested + b"\n",
        b"x" * 1_500_000 + b"\n",
    )
    site.file.write_bytes(b"".join((*broken, *site.lines)))
    found = metrics(site.folder)
    assert found.unreadable == len(broken)
    assert [tool.calls for tool in found.tools] == [1]


@each_row("seed", range(20))
def test_percentiles_are_those_of_the_sorted_amounts_within_a_percent(seed: int) -> None:
    chance = random.Random(seed)
    amounts = [
        int(chance.expovariate(1 / 10 ** chance.randrange(1, 7))) for _ in range(chance.randrange(1, 400))
    ]
    kept = DurationHistogram()
    for amount in amounts:
        kept.add(amount)
    for percent in (1, 50, 95, 99, 100):
        exact = sorted(amounts)[-(-len(amounts) * percent // 100) - 1]
        assert exact * 0.998 <= kept.percentile(percent) <= exact
    assert kept.average == sum(amounts) / len(amounts)


def test_no_amount_is_an_average_of_nothing() -> None:
    assert (DurationHistogram().average, DurationHistogram().percentile(95)) == (0.0, 0)


@pytest.mark.parametrize("seed", range(LOGS))
def test_a_projection_fed_line_by_line_is_the_one_read_anew(site: Any, seed: int) -> None:
    live = Projection(site.folder)
    writer = Writer(site, seed, lambda seq, line: live.add_line(line))
    for _ in range(120):
        writer.anything()
    anew = Projection(site.folder)
    anew.update()
    assert everything(live) == everything(anew)
    assert live.seq == anew.seq == writer.log.seq
    for name in CALLERS:
        assert live.metrics_of(f"{name}:7:99") == anew.metrics_of(f"{name}:7:99")


def test_decisions_are_counted_by_caller_not_by_its_interpreter(tmp_path: Path) -> None:
    """One interpreter runs many scripts; a wrapper's process is not the caller's."""
    projection = Projection(tmp_path)
    for seq, (name, pid) in enumerate((("notes.py", 5), ("notes.py", 6), ("other.py", 7)), 1):
        line = {
            "seq": seq,
            "time": "2026-06-01T10:00:00.000000Z",
            "event": "APPROVAL_DECIDED",
            "tool": "t",
            "callerKey": f"socket:/usr/bin/python3:{pid}:1",
            "callerName": name,
            "inputDigest": "d",
            "decision": "approved",
            "choice": "approve-once",
        }
        projection.add_line(json.dumps(line).encode())
    counts = {
        name: projection.past_decisions(
            Caller(door="socket", program="python3", executable="/usr/bin/python3", pid=9, name=name),
            "t",
            "d",
            "2026-06-01",
        ).approved
        for name in ("notes.py", "other.py", "")
    }
    assert counts == {"notes.py": 2, "other.py": 1, "": 0}


def started(seq: int, tool: str, **more: object) -> bytes:
    line = {"seq": seq, "time": "2026-06-01T10:00:00.000000Z", "event": "TOOL_STARTED", "tool": tool, **more}
    return json.dumps(line).encode()


def test_only_calls_that_started_make_a_place_familiar(tmp_path: Path) -> None:
    projection = Projection(tmp_path)
    named = NamedPlaces(hosts=("a.example", "b.example"), folders=("/etc",))
    projection.add_line(
        started(1, "t", hosts=["a.example"], inputBytes=10, seal="one", authority="request r")
    )
    for seq in range(2, 5):
        projection.add_line(started(seq, "t", inputBytes=10 * seq, seal="two", authority="lease l"))
    assert projection.past_use("t", named) == PastUse(
        new_hosts=("b.example",), new_folders=("/etc",), approved_seal="one"
    )
    projection.add_line(started(5, "t", inputBytes=1_000))
    assert projection.past_use("t", named).usual_bytes == 30
    assert projection.past_use("other", named) == PastUse(new_hosts=("b.example",), new_folders=("/etc",))


def test_the_places_that_are_kept_are_bounded(tmp_path: Path) -> None:
    projection = Projection(tmp_path)
    for seq in range(1, 202):
        projection.add_line(started(seq, "t", hosts=[f"h{seq}-{number}" for number in range(32)]))
    old, new = NamedPlaces(hosts=("h1-0",)), NamedPlaces(hosts=("h201-31",))
    assert projection.past_use("t", old).new_hosts == ("h1-0",)
    assert projection.past_use("t", new).new_hosts == ()
