"""The records of tasks: one folder each, `.flyflor/tasks/t1/{record.json,stdout,stderr,lock}`, below the
project.

Records stay readable after the sidecar has ended. The sidecar that runs a task holds its lock. A task whose
record says `running` while its lock is free is lost: its sidecar was killed.
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
"""Records that are kept. Older ones of ended tasks are removed when a task starts."""
STREAMS = ("stdout", "stderr")
MAX_LOG_BYTES = 64 * 1024 * 1024
MAX_RECORD_BYTES = 2 * 1024 * 1024
_ID = re.compile(r"t[1-9][0-9]{0,8}")
_FILES = ("record.json", "record.new", "stdout", "stderr", "lock")
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Other programs can write in the project folder: a link or a FIFO under one of our names is neither
# followed nor waited for.
_OLD = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class TaskRecord:
    """The open folder of one task and the fields of its record. The caller closes it."""

    def __init__(self, folder: int, name: str) -> None:
        self.folder = folder
        self.name = name
        self.fields: JsonObject = {}

    def save(self, **fields: object) -> None:
        """Change fields and replace the record file in one step."""
        self.fields = {**self.fields, **fields}
        descriptor = os.open("record.new", _NEW & ~os.O_EXCL | os.O_TRUNC, 0o600, dir_fd=self.folder)
        with open(descriptor, "w", encoding="ascii") as file:
            json.dump(self.fields, file)
        os.rename("record.new", "record.json", src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def create_log(self, stream: str, size: int) -> RingBuffer:
        """Create the empty log of a stream, which keeps the last `size` bytes."""
        return RingBuffer(os.open(stream, _NEW, 0o600, dir_fd=self.folder), size)

    def read_log(self, stream: str, offset: int | None, max_bytes: int) -> tuple[int, bytes, int]:
        """Read a log as `RingBuffer.read` does. Returns the offset, the bytes, and the stream's length."""
        descriptor = _regular("r", os.open(stream, os.O_RDONLY | _OLD, dir_fd=self.folder))
        try:
            ring = RingBuffer(descriptor, int(str(self.fields["logBytes"])))
            return *ring.read(offset, max_bytes), ring.total
        finally:
            os.close(descriptor)

    def acquire_lock(self) -> int:
        """Take the lock of a new task and return its descriptor, which holds it until it is closed."""
        # The kernel releases the lock when this process ends, however it ends. The descriptor is not
        # inherited (O_CLOEXEC), so a task that outlives us cannot hold it.
        descriptor = os.open("lock", _NEW, 0o600, dir_fd=self.folder)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor

    def is_locked(self) -> bool:
        """Whether a living sidecar runs the task."""
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
        """Close the folder."""
        os.close(self.folder)


def new_record(call: Call) -> TaskRecord:
    """Create the folder of a new task with the next free id. Removes old records first."""
    tasks = open_project_folder(call, FOLDER, make=True, own_state=True)
    try:
        _prune(tasks)
        number = max(map(_number, _names(tasks)), default=0)
        while True:
            number += 1
            try:
                os.mkdir(f"t{number}", 0o700, dir_fd=tasks)
            except FileExistsError:
                continue  # another sidecar of the project took the number in between
            return TaskRecord(_open(tasks, f"t{number}"), f"t{number}")
    finally:
        os.close(tasks)


def find_record(call: Call, name: str) -> TaskRecord:
    """The record of the task `name`. Raises `InvalidInput`, and `ToolFailed`: `not-found`, `broken`."""
    if not _ID.fullmatch(name):
        raise InvalidInput("id", "an id that the action start has returned is needed")
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
    """The newest `MAX_RECORDS` records, the newest first. Those that cannot be read are left out."""
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
    """The current time in UTC as `2026-01-31T12:00:00Z`."""
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
    """The fields of a record. Checks `logBytes` and `state`, on which other code relies."""
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
    """Remove the oldest records of ended tasks, so that one more fits."""
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
