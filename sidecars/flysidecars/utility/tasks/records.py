"""What is known of a task, kept in a folder of its own below the project, so that id, log and last state
stay readable when its sidecar is gone: `.flyflor/tasks/t1/{record.json,stdout,stderr,lock}`.

The sidecar that runs a task holds its lock; a task that says it runs and whose lock is free was lost.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import time

from flysidecars.sdk import Call, InvalidInput, JsonObject, ToolFailed
from flysidecars.sdk.paths import open_project_folder
from flysidecars.utility.tasks.ring_buffer import RingBuffer

FOLDER = ".flyflor/tasks"
MAX_RECORDS = 50
"""Records kept; older ones of tasks that have ended go."""
STREAMS = ("stdout", "stderr")
MAX_LOG_BYTES = 64 * 1024 * 1024
MAX_RECORD_BYTES = 2 * 1024 * 1024
_ID = re.compile(r"t[1-9][0-9]{0,8}")
_FILES = ("record.json", "record.new", "stdout", "stderr", "lock")
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class TaskRecord:
    """One task's folder, held open. `close` it."""

    def __init__(self, folder: int, name: str) -> None:
        self.folder = folder
        self.name = name
        self.fields: JsonObject = {}

    def save(self, **fields: object) -> None:
        """Change fields, and write them in one step."""
        self.fields = {**self.fields, **fields}
        descriptor = os.open("record.new", _NEW & ~os.O_EXCL | os.O_TRUNC, 0o600, dir_fd=self.folder)
        with open(descriptor, "w", encoding="ascii") as file:
            json.dump(self.fields, file)
        os.rename("record.new", "record.json", src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def create_log(self, stream: str, size: int) -> RingBuffer:
        """An empty log; its descriptor lives as long as this process."""
        return RingBuffer(os.open(stream, _NEW, 0o600, dir_fd=self.folder), size)

    def read_log(self, stream: str, offset: int | None, most: int) -> tuple[int, bytes, int]:
        """Offset and bytes of a log, and how many there were in all."""
        descriptor = _regular("r", os.open(stream, os.O_RDONLY | _OLD, dir_fd=self.folder))
        try:
            ring = RingBuffer(descriptor, int(str(self.fields["logBytes"])))
            return *ring.read(offset, most), ring.total
        finally:
            os.close(descriptor)

    def acquire_lock(self) -> int:
        """Hold the lock, for as long as the descriptor is open."""
        descriptor = os.open("lock", _NEW, 0o600, dir_fd=self.folder)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor

    def is_locked(self) -> bool:
        """Whether the sidecar that runs it is there."""
        try:
            descriptor = os.open("lock", os.O_RDONLY | _OLD, dir_fd=self.folder)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self.folder)


def new_record(call: Call) -> TaskRecord:
    """A folder with the next free id."""
    tasks = open_project_folder(call, FOLDER, make=True)
    try:
        _prune(tasks)
        number = max(map(_number, _names(tasks)), default=0)
        while True:
            number += 1
            try:
                os.mkdir(f"t{number}", 0o700, dir_fd=tasks)
            except FileExistsError:
                continue
            return TaskRecord(_open(tasks, f"t{number}"), f"t{number}")
    finally:
        os.close(tasks)


def find_record(call: Call, name: str) -> TaskRecord:
    """The record of a task. Raises `ToolFailed`: `not-found`, `broken`."""
    if not _ID.fullmatch(name):
        raise InvalidInput("id", "an id that start has returned is needed")
    try:
        tasks = open_project_folder(call, FOLDER)
    except ToolFailed as missing:
        raise _unknown(name) from missing
    try:
        return _read(tasks, name)
    except FileNotFoundError as missing:
        raise _unknown(name) from missing
    finally:
        os.close(tasks)


def all_records(call: Call) -> list[TaskRecord]:
    """Those that can be read, the newest first."""
    try:
        tasks = open_project_folder(call, FOLDER)
    except ToolFailed:
        return []
    found: list[TaskRecord] = []
    try:
        for name in sorted(_names(tasks), key=_number, reverse=True)[:MAX_RECORDS]:
            try:
                found.append(_read(tasks, name))
            except (OSError, ToolFailed):
                continue
    finally:
        os.close(tasks)
    return found


def now() -> str:
    """This moment, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _read(tasks: int, name: str) -> TaskRecord:
    record = TaskRecord(_open(tasks, name), name)
    try:
        descriptor = _regular(name, os.open("record.json", os.O_RDONLY | _OLD, dir_fd=record.folder))
        with open(descriptor, "rb") as file:
            record.fields = _parse(name, file.read(MAX_RECORD_BYTES))
    except BaseException:
        record.close()
        raise
    return record


def _parse(name: str, data: bytes) -> JsonObject:
    """The fields; what the others rest on is checked."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        fields = None
    size = fields.get("logBytes") if isinstance(fields, dict) else None
    state = fields.get("state") if isinstance(fields, dict) else None
    if not isinstance(size, int) or not 1 <= size <= MAX_LOG_BYTES or not isinstance(state, str):
        raise ToolFailed("broken", f"the record of {name} cannot be read", id=name)
    return dict(fields)


def _regular(name: str, descriptor: int) -> int:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ToolFailed("broken", f"the record of {name} cannot be read", id=name)
    return descriptor


def _prune(tasks: int) -> None:
    """Remove the oldest records of tasks that have ended."""
    for name in sorted(_names(tasks), key=_number, reverse=True)[MAX_RECORDS - 1 :]:
        record = TaskRecord(_open(tasks, name), name)
        try:
            if record.is_locked():
                continue
            for file in _FILES:
                if file in os.listdir(record.folder):
                    os.unlink(file, dir_fd=record.folder)
        finally:
            record.close()
        os.rmdir(name, dir_fd=tasks)


def _open(tasks: int, name: str) -> int:
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | _OLD, dir_fd=tasks)


def _names(tasks: int) -> list[str]:
    return [name for name in os.listdir(tasks) if _ID.fullmatch(name)]


def _number(name: str) -> int:
    return int(name[1:])


def _unknown(name: str) -> ToolFailed:
    return ToolFailed("not-found", f"there is no task {name}", id=name)
