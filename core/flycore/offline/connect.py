"""Connects agents' programs with flytui by their own configuration files: a plan first, then the writes that
a person has seen. A record of what was written lets `plan_removal` take back exactly that."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from flycore.discovery.agent_clients.edit import ClientEdit, add_values, current, read_value, snippet
from flycore.discovery.agent_clients.record import (
    MAX_FILE_BYTES,
    WrittenFile,
    WrittenValue,
    digest_of_text,
    restored,
    written_store,
)
from flycore.discovery.agent_clients.table import (
    BY_ID,
    CLIENTS,
    HOOKS,
    AgentClient,
    ClientFile,
    Connection,
    Part,
    Wanted,
)
from flycore.registry.paths import RootPaths
from flycore.registry.read_file import read_text
from flysafe.atomic import create_beneath, replace_beneath
from flysafe.beneath import open_anchor, open_beneath

CLIENT_NAMES = tuple(client.id for client in CLIENTS)
__all__ = ["BY_ID", "CLIENT_NAMES", "Connection", "Part"]


class FileChange(NamedTuple):
    """One file before and after. None stands for a file that does not exist."""

    file: ClientFile
    before: str | None
    after: str | None
    written: WrittenFile | None = None
    """What is recorded of it afterwards."""

    @property
    def difference(self) -> tuple[str, ...]:
        """The difference, as lines of a unified diff without their newlines."""
        lines = difflib.unified_diff(
            (self.before or "").splitlines(),
            (self.after or "").splitlines(),
            self.file.shown if self.before is not None else "/dev/null",
            self.file.shown if self.after is not None else "/dev/null",
            lineterm="",
        )
        return tuple(lines)


class ConnectPlan(NamedTuple):
    """The files that would change; empty where all is as it is wanted. Or why there is no plan."""

    client: AgentClient
    changes: tuple[FileChange, ...] = ()
    why_not: str = ""


class _RefusedError(Exception):
    """A file cannot be changed; the message says why."""


def plan_connect(
    places: RootPaths, home: Path, name: str, connection: Connection, parts: frozenset[Part]
) -> ConnectPlan:
    """Return the plan by which the client has these parts. Parts that it got before stay."""
    client = BY_ID[name]
    before = {written.file: written for written in _written(places, name)}
    parts |= {value.part for written in before.values() for value in written.values}
    by_file: dict[ClientFile, list[Wanted]] = {written.file: [] for written in before.values()}
    for wanted in client.wanted(connection, parts):
        by_file.setdefault(wanted.file, []).append(wanted)
    changes: list[FileChange] = []
    for file, wants in by_file.items():
        try:
            change = _change(places, home, client, file, tuple(wants), before.get(file))
        except _RefusedError as refused:
            return ConnectPlan(client, why_not=f"{file.shown}: {refused}")
        if change.after != change.before:
            changes.append(change)
    return ConnectPlan(client, tuple(changes))


def _change(
    places: RootPaths,
    home: Path,
    client: AgentClient,
    file: ClientFile,
    wants: tuple[Wanted, ...],
    earlier: WrittenFile | None,
) -> FileChange:
    now = _read(places, home, file)
    base = now
    if now is not None and earlier is not None:
        left = restored(now, earlier)
        if left.why_not:
            raise _RefusedError(left.why_not)
        base = left.text
    value = read_value(base or "", file.form)
    if value is None:
        raise _RefusedError("it cannot be read as it is: correct it first")
    missing = tuple(one for one in wants if current(value, one) != one.value)
    if not missing:
        return FileChange(file, now, base)
    made: ClientEdit = add_values(base or "", file.form, missing)
    if made.why_not:
        raise _RefusedError(made.why_not)
    anchor = _anchor(places, home, file)
    folders = _missing_folders(anchor, file.path) if earlier is None else earlier.folders
    written = WrittenFile(
        client=client.id,
        path=file.path,
        in_home=file.in_home,
        form=file.form,
        created=base is None,
        folders=folders,
        before="" if base is None else digest_of_text(base),
        after=digest_of_text(made.text),
        pieces=tuple((piece.at, piece.text) for piece in made.pieces),
        values=tuple(
            WrittenValue(part=one.part, pointer=one.pointer, value=one.value, is_item=one.is_item)
            for one in missing
        ),
    )
    return FileChange(file, now, made.text, written)


def plan_removal(places: RootPaths, home: Path, name: str) -> ConnectPlan:
    """Return the plan that takes back what was written for the client."""
    client = BY_ID[name]
    changes: list[FileChange] = []
    for written in _written(places, name):
        try:
            now = _read(places, home, written.file)
        except _RefusedError as refused:
            return ConnectPlan(client, why_not=f"{written.file.shown}: {refused}")
        left = restored(now, written) if now is not None else None
        if left is not None and left.why_not:
            return ConnectPlan(client, why_not=f"{written.file.shown}: {left.why_not}")
        changes.append(FileChange(written.file, now, left.text if left is not None else None))
    return ConnectPlan(client, tuple(changes))


def apply_plan(places: RootPaths, home: Path, plan: ConnectPlan) -> str:
    """Write the files of the plan and record what was written. Return why not; empty where all was done."""
    records = {(one.client, one.file): one for one in written_store(places.clients_file).value}
    for change in plan.changes:
        try:
            _write(_anchor(places, home, change.file), change)
            earlier = records.pop((plan.client.id, change.file), None)
            if change.after is None and earlier is not None:
                _remove_folders(_anchor(places, home, change.file), earlier.folders)
            if change.written is not None:
                records[plan.client.id, change.file] = change.written
            _record(places, records.values())
        except OSError as error:
            return f"{change.file.shown} cannot be written: {error.strerror or error}"
    return ""


def print_text(name: str, connection: Connection) -> tuple[str, str]:
    """Return the file of the client's entry, as a person writes it, and what belongs in it."""
    wanted = BY_ID[name].server(connection._replace(is_anywhere=True))
    return wanted.file.shown, snippet(wanted.file.form, (wanted,))


def hook_text(name: str, connection: Connection, without_console: str) -> tuple[str, str]:
    """Return the file of the client's hook, as a person writes it, and what belongs in it. Raises KeyError
    for a client that has no hook."""
    wanted = HOOKS[name](connection._replace(without_console=without_console, is_anywhere=True))
    return wanted.file.shown, snippet(wanted.file.form, (wanted,))


def has_hook(places: RootPaths, name: str, connection: Connection) -> bool:
    """Return whether the project's file has the client's hook, exactly as `plan_connect` adds it."""
    for without_console in ("deny", "ask"):
        wanted = HOOKS[name](connection._replace(without_console=without_console))
        text, _, problem = read_text(places.app_root, wanted.file.path, wanted.file.shown)
        value = read_value(text or "", wanted.file.form) if problem is None else None
        if value is not None and current(value, wanted) == wanted.value:
            return True
    return False


def _written(places: RootPaths, name: str) -> tuple[WrittenFile, ...]:
    return tuple(one for one in written_store(places.clients_file).value if one.client == name)


def _anchor(places: RootPaths, home: Path, file: ClientFile) -> Path:
    return home if file.in_home else places.app_root


def _read(places: RootPaths, home: Path, file: ClientFile) -> str | None:
    """Return the text of the file, None where there is none. Raises _RefusedError."""
    text, data, problem = read_text(_anchor(places, home, file), file.path, file.shown)
    if problem is not None:
        raise _RefusedError(problem.message)
    if len(data) > MAX_FILE_BYTES:
        raise _RefusedError("it is too large")
    # A file that does not keep its bytes when it is read and written could not be given back as it was.
    if text is not None and text.encode("utf-8", "surrogatepass") != data:
        raise _RefusedError("it begins with a byte order mark: save it without one")
    return text


def _write(anchor: Path, change: FileChange) -> None:
    if change.before is None and change.after is not None:
        create_beneath(anchor, change.file.path, change.after.encode("utf-8"))
    elif change.before is not None and change.after is not None:
        replace_beneath(anchor, change.file.path, change.before.encode("utf-8"), change.after.encode("utf-8"))
    elif change.before is not None:
        _remove(anchor, change.file.path)


def _remove(anchor: Path, relative: str) -> None:
    parent, name = os.path.split(relative)
    with _opened(anchor, parent) as folder:
        os.unlink(name, dir_fd=folder)


@contextlib.contextmanager
def _opened(anchor: Path, relative: str) -> Iterator[int]:
    """The descriptor of a folder below the anchor, while the block runs."""
    anchor_fd = open_anchor(anchor)
    try:
        folder = open_beneath(anchor_fd, relative or ".", os.O_RDONLY | os.O_DIRECTORY, links=True)
        try:
            yield folder
        finally:
            os.close(folder)
    finally:
        os.close(anchor_fd)


def _missing_folders(anchor: Path, relative: str) -> tuple[str, ...]:
    """Return the folders of a relative path that are not there, outermost first."""
    parts = relative.split("/")[:-1]
    paths = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
    return tuple(path for path in paths if not os.path.lexists(anchor / path))


def _remove_folders(anchor: Path, folders: tuple[str, ...]) -> None:
    """Remove the folders that were made for a file, as far as they are empty."""
    for path in reversed(folders):
        parent, name = os.path.split(path)
        with contextlib.suppress(OSError), _opened(anchor, parent) as folder:
            os.rmdir(name, dir_fd=folder)


def _record(places: RootPaths, records: Iterable[WrittenFile]) -> None:
    written_store(places.clients_file).write(tuple(records))


def home_of(environ: Mapping[str, str]) -> Path:
    """Return the person's home folder."""
    return Path(environ.get("HOME") or os.path.expanduser("~"))
