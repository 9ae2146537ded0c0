"""`task.background` in a sidecar that stays."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from flysidecars.utility.tasks.ring_buffer import RingBuffer, decode_part

TOOL = "task.background"
PYTHON = [sys.executable, "-c"]
ANY = {"tasks": {"allow": "any"}}
WAIT = "import os, signal\nopen('up', 'w').write(str(os.getpid()))\nsignal.pause()"
STUBBORN = """
import os, signal
signal.signal(15, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    open("child.new", "w").write(str(os.getpid()))
    os.rename("child.new", "child")
while True:
    signal.pause()
"""


@pytest.fixture
def tasks(starter, stay):
    """A sidecar that may run anything."""

    def start(config: dict[str, Any] = ANY) -> Any:
        return stay("utility.local", projectDir=str(starter.project), config=config)

    return start


def run(one: Any, text: str, *arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = one.answer(TOOL, {"action": "start", "command": [*PYTHON, text, *arguments]})
    assert answer["ok"], answer
    return answer


def look(one: Any, name: str, action: str = "status", **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = one.answer(TOOL, {"action": action, "id": name, **more})
    return found


def ended(one: Any, name: str, wait_for: Any) -> dict[str, Any]:
    wait_for(lambda: look(one, name)["state"] != "running", "the end of the task")
    return look(one, name)


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def pid_in(file: Path, wait_for: Any) -> int:
    wait_for(lambda: file.exists() and file.read_text(), f"the file {file.name}")
    return int(file.read_text())


def test_a_task_runs_on_and_its_end_and_words_stay_readable(starter, tasks, stay, wait_for) -> None:
    one = tasks()
    text = "import sys, os; print(os.getcwd(), sys.argv[1:]); sys.stderr.write('bad'); sys.exit(3)"
    begun = run(one, text, "$(id)", "; x", "🙂")
    assert begun["command"][-3:] == ["$(id)", "; x", "🙂"]
    done = ended(one, begun["id"], wait_for)
    assert (done["state"], done["exitCode"]) == ("exited", 3)
    said = look(one, begun["id"], "output")
    assert said["output"] == f"{starter.project} ['$(id)', '; x', '🙂']\n"
    assert said["nextOffset"] == len(said["output"].encode())
    assert look(one, begun["id"], "output", stream="stderr")["output"] == "bad"
    assert one.leave() == 0
    other = tasks()
    assert look(other, begun["id"], "output") == said
    (listed,) = other.answer(TOOL, {"action": "status"})["tasks"]
    assert (listed["id"], listed["state"]) == (begun["id"], "exited")


def test_busy_is_said_from_the_first_start_to_the_last_end(tasks, wait_for, starter) -> None:
    one = tasks()
    name = one.ask(TOOL, {"action": "start", "command": [*PYTHON, WAIT]})
    assert one.hear() == {"event": "busy", "busy": True}
    assert one.hear()["requestId"] == name
    pid = pid_in(starter.project / "up", wait_for)
    os.kill(pid, 9)
    assert one.hear() == {"event": "busy", "busy": False}
    assert look(one, "t1")["exitCode"] == -9
    name = one.ask(TOOL, {"action": "start", "command": ["no-such-program"]})
    assert one.hear()["code"] == "not-found"
    name = one.ask(TOOL, {"action": "start", "command": ["/dev/null"]})
    assert [one.hear() for _ in range(2)] == [{"event": "busy", "busy": busy} for busy in (True, False)]
    assert one.hear()["code"] == "delegate-failed"


def test_stop_ends_everybody_and_says_so(tasks, wait_for, starter) -> None:
    one = tasks()
    begun = run(one, STUBBORN)
    hidden = pid_in(starter.project / "child", wait_for)
    stopped = look(one, begun["id"], "stop")
    assert (stopped["state"], stopped["exitCode"]) == ("stopped", -9)
    assert not alive(hidden)
    assert look(one, begun["id"], "stop") == stopped


LEAVES = """
import os, signal
reading, writing = os.pipe()
if os.fork() == 0:
    signal.signal(15, signal.SIG_IGN)
    open("up", "w").write(str(os.getpid()))
    os.write(writing, b"x")
    signal.pause()
os.read(reading, 1)
"""


def test_who_is_left_behind_by_a_task_is_ended_with_it(tasks, wait_for, starter) -> None:
    one = tasks()
    done = ended(one, run(one, LEAVES)["id"], wait_for)
    assert (done["state"], done["exitCode"]) == ("exited", 0)
    assert not alive(int((starter.project / "up").read_text()))


def test_its_tasks_end_with_the_sidecar(tasks, wait_for, starter) -> None:
    one = tasks()
    begun = run(one, WAIT)
    pid = pid_in(starter.project / "up", wait_for)
    assert one.leave() == 0
    assert not alive(pid)
    other = tasks()
    assert look(other, begun["id"])["state"] == "stopped"


def test_a_sidecar_that_is_killed_loses_its_tasks_and_that_is_told(tasks, wait_for, starter) -> None:
    one = tasks()
    begun = run(one, "print('a word', flush=True)\n" + WAIT)
    pid = pid_in(starter.project / "up", wait_for)
    other = tasks()
    assert look(other, begun["id"])["state"] == "running"
    assert look(other, begun["id"], "stop")["code"] == "not-stopped"
    assert alive(pid)
    wait_for(lambda: look(other, begun["id"], "output")["output"] == "a word\n", "the word")
    one.process.kill()
    one.process.wait()
    wait_for(lambda: look(other, begun["id"])["state"] == "lost", "the loss")
    os.kill(pid, 9)
    assert look(other, begun["id"], "output")["output"] == "a word\n"


def test_the_log_keeps_the_last_and_is_read_on_from_where_it_was(tasks, wait_for) -> None:
    one = tasks({"tasks": {"allow": "any", "logBytes": 1000}})
    begun = run(one, "import sys; sys.stdout.write(''.join(f'{n:09d}\\n' for n in range(5000)))")
    ended(one, begun["id"], wait_for)
    said = look(one, begun["id"], "output")
    assert said["output"].split() == [f"{n:09d}" for n in range(4900, 5000)]
    assert (said["offset"], said["nextOffset"]) == (49_000, 50_000)
    assert look(one, begun["id"], "output", offset=0)["offset"] == 49_000
    assert look(one, begun["id"], "output", offset=49_990)["output"] == "000004999\n"
    assert look(one, begun["id"], "output", offset=10**9)["output"] == ""


@pytest.mark.parametrize(
    ("config", "command", "code"),
    [
        ({}, ["true"], "unavailable"),
        ({"tasks": {}}, ["true"], "unavailable"),
        ({"tasks": {"allow": []}}, ["true"], "unavailable"),
        ({"tasks": {"allow": [[]]}}, ["true"], "invalid-config"),
        ({"tasks": {"allow": ["true"]}}, ["true"], "invalid-config"),
        ({"tasks": {"allow": "any", "most": 0}}, ["true"], "invalid-config"),
        ({"tasks": {"allow": [["make", "docs"], ["true"]]}}, ["make", "all"], "not-allowed"),
        ({"tasks": {"allow": [["make", "docs"], ["true"]]}}, ["/bin/true"], "not-allowed"),
        (ANY, "true; x", "invalid-input"),
        (ANY, ["../run"], "outside-project"),
        (ANY, ["no-such-program"], "not-found"),
    ],
)
def test_what_is_not_allowed_leaves_nothing(starter, tasks, config: Any, command: Any, code: str) -> None:
    one = tasks(config)
    assert one.answer(TOOL, {"action": "start", "command": command})["code"] == code
    assert not (starter.project / ".flyflor").exists()


def test_what_is_allowed_begins_so(tasks, wait_for) -> None:
    one = tasks({"tasks": {"allow": [PYTHON]}})
    assert ended(one, run(one, "")["id"], wait_for)["exitCode"] == 0


def test_only_so_many_run_at_once(tasks, starter, wait_for) -> None:
    one = tasks({"tasks": {"allow": "any", "most": 1}})
    begun = run(one, WAIT)
    refused = one.answer(TOOL, {"action": "start", "command": [*PYTHON, ""]})
    assert (refused["code"], refused["running"]) == ("too-many", 1)
    look(one, begun["id"], "stop")
    assert run(one, "")["id"] == "t2"


@pytest.mark.parametrize("name", ["..", "t0", "t1x", "x", "t99", "t1/../t1"])
def test_no_other_name_is_an_id(tasks, name: str) -> None:
    assert look(tasks(), name, "output")["code"] in ("invalid-input", "not-found")


def test_records_lead_nowhere_else(starter, tasks) -> None:
    folder = starter.project / ".flyflor" / "tasks"
    for name in ("t1", "t2", "t3"):
        (folder / name).mkdir(parents=True)
    (starter.artifacts / "record.json").write_text('{"state": "exited", "logBytes": 10}')
    shutil.rmtree(folder / "t1")
    (folder / "t1").symlink_to(starter.artifacts)
    (folder / "t2" / "record.json").write_text('{"state": "exited", "logBytes": 1e400}')
    (folder / "t3" / "record.json").write_text('{"state": "exited", "logBytes": 10}')
    (folder / "t3" / "stdout").symlink_to("/etc/passwd")
    one = tasks()
    for name in ("t1", "t2", "t3"):
        answer = look(one, name, "output")
        assert answer["code"] in ("os-error", "broken"), answer
    assert [row["id"] for row in one.answer(TOOL, {"action": "status"})["tasks"]] == ["t3"]


def test_alone_it_is_unavailable_and_says_what_to_change(starter) -> None:
    given = {"action": "start", "command": ["true"]}
    answer = starter.call("utility.local", TOOL, given, config=ANY).answer
    assert answer["code"] == "unavailable"
    assert "process-json-persistent" in answer["remedy"]


@pytest.mark.parametrize(
    ("config", "status"), [({}, "unavailable"), (ANY, "healthy"), ({"tasks": 1}, "unavailable")]
)
def test_the_probe_says_whether_it_is_configured(starter, config: Any, status: str) -> None:
    told = starter.call("utility.local", TOOL, {"probe": True}, config=config).answer["tools"][TOOL]
    assert told["status"] == status
    assert ("config.tasks" in told.get("remedy", "")) is (status == "unavailable")


def test_a_delegate_takes_the_whole_request(starter) -> None:
    program = starter.project / "tasker"
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\nr = json.load(sys.stdin)\n"
        "print(json.dumps({'ok': True, 'id': 'x1', 'state': 'running', 'output': r['input']['action']}))\n"
    )
    program.chmod(0o755)
    delegates = {"task": {"argv": [str(program)]}}
    answer = starter.call("utility.local", TOOL, {"action": "status"}, delegates=delegates).answer
    assert answer == {"ok": True, "id": "x1", "state": "running", "output": "status"}


def test_a_ring_gives_what_a_list_would(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "ring", os.O_RDWR | os.O_CREAT)
    ring, stream = RingBuffer(descriptor, 10), b""
    for length in (0, 3, 7, 1, 10, 25, 4, 9, 2):
        data = bytes((len(stream) + at) % 251 for at in range(length))
        stream += data
        ring.write(data)
        for offset in (None, 0, len(stream) - 5, len(stream), len(stream) + 5):
            begin, found = RingBuffer(descriptor, 10).read(offset, 6)
            oldest = max(0, len(stream) - 10)
            wanted = len(stream) - 6 if offset is None else min(offset, len(stream))
            assert begin == max(oldest, wanted)
            assert found == stream[begin : begin + 6]
    os.close(descriptor)


@pytest.mark.parametrize("whole", [True, False])
def test_text_is_cut_between_characters(whole: bool) -> None:
    data = "aé🙂b".encode()
    for end in range(len(data) + 1):
        _, text, following = decode_part(0, data[:end], whole=False, cut=False)
        assert "\ufffd" not in text
        assert text + decode_part(following, data[following:], whole=whole, cut=False)[1] == "aé🙂b"
    for start in range(len(data)):
        begin, text, _ = decode_part(start, data[start:], whole=whole, cut=True)
        assert "\ufffd" not in text
        assert data[begin:].decode() == text
    assert json.dumps(decode_part(0, b"\xf0\xff", whole=True, cut=False)[1])
