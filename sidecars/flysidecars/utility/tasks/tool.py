"""The tool's actions: start, status, output and stop."""

from __future__ import annotations

import atexit
import os
import signal
from threading import Lock

from flysidecars.child_process import ChildProcess
from flysidecars.run_program import find_program
from flysidecars.sdk import Call, JsonObject, ToolFailed, Unavailable
from flysidecars.sdk.paths import open_project, open_project_file
from flysidecars.utility.tasks.records import STREAMS, all_records, find_record, new_record, now
from flysidecars.utility.tasks.ring_buffer import decode_part
from flysidecars.utility.tasks.settings import TaskSettings
from flysidecars.utility.tasks.task_process import TaskProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flysidecars.utility.tasks.records import TaskRecord

MAX_OUTPUT_BYTES = 64 * 1024
"""Bytes of a log in one answer."""
EXIT_GRACE_S = 0.4
"""Seconds between SIGTERM and SIGKILL when this process exits; the kernel gives it a second."""
_SHOWN_WORDS = 32
_SHOWN_WORD = 400

_running: dict[str, TaskProcess] = {}
"""The tasks of this process by project folder and id (`_key`). `_lock` guards changes."""
_lock = Lock()


def task_background(call: Call) -> JsonObject:
    """Run commands that go on after the answer, as children of this process or through `delegates.task`.

    Raises `InvalidInput`, `Unavailable`, and `ToolFailed`: `invalid-config`, `not-allowed`, `too-many`,
    `not-found`, `broken`, `not-stopped`, `delegate-failed`.
    """
    delegate = call.delegate("task")
    if delegate is not None:
        from flysidecars.media.delegate import ask_delegate
        from flysidecars.media.engines import Engine

        return ask_delegate(call, Engine("delegate", "task", delegate))
    settings = TaskSettings(call.config)
    if not call.persistent:
        raise Unavailable(
            "a task needs a process that stays",
            'set "kind": "process-json-persistent" of the entry, without secrets or desktop',
        )
    match call.choice("action", ("start", "status", "output", "stop")):
        case "start":
            return _start(call, settings)
        case "status" if call.optional_text("id") is None:
            return {"tasks": [_facts_and_close(call, record) for record in all_records(call)]}
        case "status":
            return _facts_and_close(call, find_record(call, call.text("id")))
        case "output":
            return _output(call)
        case _:
            return _stop(call)


def _start(call: Call, settings: TaskSettings) -> JsonObject:
    command = call.texts("command")
    settings.check(command)
    argv = [_program(call, command[0]), *command[1:]]
    with _lock:
        if len(_running) >= settings.max_tasks:
            raise ToolFailed("too-many", f"{settings.max_tasks} tasks run already", running=len(_running))
        # Before the start: a process that is not busy may be ended for idleness, and its tasks with it.
        call.busy(True)
        try:
            task = _launch(call, argv, command, settings)
        except BaseException:
            call.busy(bool(_running))
            raise
        atexit.unregister(_end_all)  # so that it runs once
        atexit.register(_end_all)
        _running[_key(call, task.record.name)] = task
    # Last: the thread of a task that ends at once removes it from `_running`.
    task.start()
    return _facts(call, task.record)


def _launch(call: Call, argv: list[str], command: list[str], settings: TaskSettings) -> TaskProcess:
    record = new_record(call)
    record.save(
        id=record.name,
        state="running",
        exitCode=None,
        command=command,
        startedAt=now(),
        logBytes=settings.log_bytes,
    )
    key = _key(call, record.name)

    def ended(task: TaskProcess) -> None:
        with _lock:
            _running.pop(key, None)
            call.busy(bool(_running))

    folder = open_project(call)
    try:
        return TaskProcess(ChildProcess(argv, folder, talks=False), record, ended)
    except ToolFailed:
        record.save(state="failed", endedAt=now())
        record.close()
        raise
    finally:
        os.close(folder)


def _program(call: Call, name: str) -> str:
    """The path of the program: found on PATH, absolute, or a file below the project."""
    if "/" not in name:
        found = find_program(name)
        if found is None:
            raise ToolFailed("not-found", f"{name} is not on PATH", program=name)
        return found
    if os.path.isabs(name):
        return name
    os.close(open_project_file(call, name)[0])
    return os.path.join(call.project_dir, name)


def _output(call: Call) -> JsonObject:
    record = find_record(call, call.text("id"))
    stream = call.choice("stream", STREAMS, "stdout")
    offset = None if call.input.get("offset") is None else call.integer("offset", 0, 1 << 53)
    try:
        facts = _facts(call, record)
        begin, data, total = record.read_log(stream, offset, MAX_OUTPUT_BYTES)
        at_end = begin + len(data) >= total
        cut = begin > 0 and begin != offset
        begin, text, following = decode_part(
            begin, data, whole=at_end and facts["state"] != "running", cut=cut
        )
        facts |= {"stream": stream, "offset": begin, "nextOffset": following, "output": text}
        return facts
    finally:
        record.close()


def _stop(call: Call) -> JsonObject:
    name = call.text("id")
    with _lock:
        task = _running.get(_key(call, name))
    if task is not None:
        call.log(f"ending {name}")
        task.stop()
    record = find_record(call, name)
    facts = _facts_and_close(call, record)
    if facts["state"] == "running":
        raise ToolFailed(
            "not-stopped", f"{name} was started by another caller; only that caller can stop it", id=name
        )
    return facts


def _facts_and_close(call: Call, record: TaskRecord) -> JsonObject:
    try:
        return _facts(call, record)
    finally:
        record.close()


def _facts(call: Call, record: TaskRecord) -> JsonObject:
    fields = record.fields
    command = fields.get("command")
    words = [str(word)[:_SHOWN_WORD] for word in command] if isinstance(command, list) else []
    state = fields["state"]
    own = _key(call, record.name) in _running
    if state == "running" and not own and not record.is_locked():
        record.fields = fields = _read_fields_again(call, record)
        state = "lost" if fields["state"] == "running" else fields["state"]
    facts: JsonObject = {"id": record.name, "state": state, "exitCode": fields.get("exitCode")}
    facts |= {"command": words[:_SHOWN_WORDS], "startedAt": str(fields.get("startedAt"))}
    if fields.get("endedAt"):
        facts["endedAt"] = str(fields["endedAt"])
    return facts


def _read_fields_again(call: Call, record: TaskRecord) -> JsonObject:
    """The current fields of the record.

    A task may have ended and released its lock after the record was read and before the lock was tested.
    """
    again = find_record(call, record.name)
    again.close()
    return again.fields


def _key(call: Call, name: str) -> str:
    return f"{call.project_dir}\0{name}"


def _end_all() -> None:
    """End all tasks when this process exits."""
    tasks = list(_running.values())
    # All at once first: ending them one by one could take longer than the second that we have.
    for task in tasks:
        task.child.signal_tree(signal.SIGTERM)
    for task in tasks:
        task.stop(EXIT_GRACE_S)
