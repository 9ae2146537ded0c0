"""`workspace.search`: by ripgrep in a sandbox, or by flytui itself, with the same files and the same results.

Both take time in proportion to the text, whatever the pattern is: the engine of flytui is that of the
validator of schemas, which has no back-references and no look-around.
"""

from __future__ import annotations

import base64
import fnmatch
import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from flycore.model.json import Json, JsonObject
from flycore.model.schema_cost import LARGEST_PATTERN
from flycore.runners.workspace.list_files import NOT_ENTERED, Entry, Walk
from flycore.runners.workspace.project_files import (
    FOLDER,
    READ,
    Project,
    anchor_of,
    opened,
    require_file,
    shown,
)
from flysafe.beneath import open_beneath

MOST_FILE_BYTES = 4 * 1024 * 1024
"""Larger files are left out."""
MOST_READ = 512 * 1024 * 1024
"""Bytes that one search reads."""
MOST_FOUND = 100_000
"""Lines that one search finds."""
LINE_CHARS = 400
"""Characters of a line that are shown."""
_BINARY_HEAD = 8 * 1024


class BadPattern(Exception):
    """The pattern is no regular expression; the message says why."""


class FoundLine(NamedTuple):
    """A line that fits."""

    path: str
    number: int
    text: str


class Query(NamedTuple):
    """What is searched for."""

    pattern: str
    regex: bool
    ignore_case: bool
    path: str
    glob: str


def query_of(input: JsonObject) -> Query:
    """Return the query of a validated input."""
    return Query(
        str(input["pattern"]),
        input.get("regex") is True,
        input.get("ignoreCase") is True,
        str(input.get("path", ".")),
        str(input.get("glob", "")),
    )


def result_page(
    engine: str, why: str, lines: Iterable[FoundLine], offset: int, limit: int, incomplete: Callable[[], str]
) -> JsonObject:
    """Return the page of the lines found. `incomplete` is called once the lines were taken."""
    page: list[Json] = []
    found: JsonObject = {"engine": engine}
    if why:
        found["engineWhy"] = why
    for number, line in enumerate(lines):
        if number < offset:
            continue
        if len(page) == limit or number >= MOST_FOUND:
            found["nextOffset"] = offset + len(page)
            break
        page.append({"path": shown(line.path), "line": line.number, "text": line.text})
    found["matches"] = page
    if reason := incomplete():
        found["incomplete"] = reason
    return found


# The engine of flytui itself.


def search(project: Project, query: Query, why: str, offset: int, limit: int) -> JsonObject:
    """Search without another program. Raises PathRefused, BadPattern, and OSError where the folder cannot be
    read."""
    fits = matcher(query)
    walk = Walk(project, recursive=True)
    budget = _Budget()
    with anchor_of(project) as anchor:
        lines = _found(project, anchor, query, walk, fits, budget)
        return result_page("flytui", why, lines, offset, limit, lambda: walk.incomplete or budget.incomplete)


class _Budget:
    """The bytes that a search may still read."""

    def __init__(self) -> None:
        self.left = MOST_READ
        self.incomplete = ""


def matcher(query: Query) -> Callable[[str], bool]:
    """Return the function that says whether a line fits. Raises BadPattern."""
    if not query.regex and not query.ignore_case:
        return lambda line: query.pattern in line
    if not query.regex:
        folded = query.pattern.lower()
        return lambda line: folded in line.lower()
    import jsonschema_rs

    pattern = f"(?i){query.pattern}" if query.ignore_case else query.pattern
    try:
        validator = jsonschema_rs.Draft202012Validator(
            {"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions(size_limit=LARGEST_PATTERN)
        )
    except (jsonschema_rs.ValidationError, ValueError):
        raise BadPattern(
            "the pattern is no regular expression that takes linear time: no look-around, no back-references"
        ) from None
    return validator.is_valid


def _found(
    project: Project,
    anchor: int,
    query: Query,
    walk: Walk,
    fits: Callable[[str], bool],
    budget: _Budget,
) -> Iterator[FoundLine]:
    try:
        with opened(project, query.path, FOLDER) as (descriptor, real):
            for entry in walk.entries(descriptor, real):
                if _is_searched(entry, query.glob):
                    yield from _in_file(anchor, entry.path, fits, budget)
                if budget.left <= 0:
                    budget.incomplete = (
                        f"more than {MOST_READ // 1024 // 1024} MiB: name a folder further down"
                    )
                    return
    except NotADirectoryError:
        with opened(project, query.path, READ) as (descriptor, real):
            require_file(descriptor, query.path)
        yield from _in_file(anchor, real, fits, budget)


def _is_searched(entry: Entry, glob: str) -> bool:
    name = entry.path.rpartition("/")[2]
    if entry.kind != "file" or entry.size > MOST_FILE_BYTES:
        return False
    return not glob or fnmatch.fnmatchcase(name, glob)


def _in_file(anchor: int, path: str, fits: Callable[[str], bool], budget: _Budget) -> Iterator[FoundLine]:
    try:
        descriptor = open_beneath(anchor, path, READ)
    except OSError:
        return  # it was removed, or a link took its place
    with os.fdopen(descriptor, "rb") as file:
        try:
            require_file(descriptor, path)
            data = file.read(MOST_FILE_BYTES + 1)
        except OSError:
            return
    budget.left -= len(data)
    if len(data) > MOST_FILE_BYTES or b"\0" in data[:_BINARY_HEAD]:
        return
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        if fits(line := line.removesuffix("\r")):
            yield FoundLine(path, number, cut_line(line))


def cut_line(line: str) -> str:
    """Return the line as it is shown."""
    return line if len(line) <= LINE_CHARS else f"{line[:LINE_CHARS]}…"


# ripgrep.


def ripgrep_argv(program: str, query: Query, name: str) -> tuple[str, ...]:
    """Return the command line of ripgrep that searches the same files. `name` is the file in its working
    folder, or `.` for all of it: the folders that it leaves out are named from there."""
    left_out = (word for folder in sorted(NOT_ENTERED) for word in ("--glob", f"!**/{folder}/**"))
    named = ("--glob", query.glob) if query.glob else ()
    return (
        program,
        "--no-config",
        "--no-ignore",
        "--hidden",
        "--no-follow",
        "--no-messages",
        "--json",
        "--sort=path",
        f"--max-filesize={MOST_FILE_BYTES}",
        "--ignore-case" if query.ignore_case else "--case-sensitive",
        *(() if query.regex else ("--fixed-strings",)),
        *named,
        *left_out,
        "--regexp",
        query.pattern,
        "--",
        name if name == "." else f"./{name}",
    )


class _Words(msgspec.Struct):
    text: str = ""
    bytes: str = ""
    """Base64, where it is no UTF-8."""

    def plain(self) -> str:
        return self.text or base64.b64decode(self.bytes).decode("utf-8", "surrogateescape")


class _Data(msgspec.Struct):
    path: _Words = msgspec.field(default_factory=_Words)
    lines: _Words = msgspec.field(default_factory=_Words)
    line_number: int | None = None
    binary_offset: int | None = None


class _Message(msgspec.Struct):
    type: str
    data: _Data = msgspec.field(default_factory=_Data)


_MESSAGES = msgspec.json.Decoder(_Message)


def ripgrep_lines(data: bytes, folder: str) -> Iterator[FoundLine]:
    """Yield the lines that ripgrep found in `folder`, which is relative to the project. A line of the output
    that is torn, because there was too much of it, ends them."""
    lines: list[FoundLine] = []
    for printed in data.removesuffix(b"\n").split(b"\n"):
        try:
            message = _MESSAGES.decode(printed)
            path = message.data.path.plain().removeprefix("./")
            if message.type == "begin":
                lines = []
            elif message.type == "match":
                text = shown(message.data.lines.plain())
                inner = path if folder == "." else f"{folder}/{path}"
                number = message.data.line_number or 0
                lines.append(FoundLine(inner, number, cut_line(text.removesuffix("\n").removesuffix("\r"))))
            # What stands before the first NUL of a binary file is left out with it.
            elif message.type == "end":
                yield from lines if message.data.binary_offset is None else ()
                lines = []
        except (msgspec.MsgspecError, ValueError):
            yield from lines
            return


def searched_place(project: Project, given: str) -> tuple[str, str]:
    """Return the folder to search in, by its real path relative to the project, and the name of the file in
    it, `.` for the whole folder.

    Raises PathRefused, and OSError where it cannot be read.
    """
    try:
        with opened(project, given, FOLDER) as (_, real):
            return real, "."
    except NotADirectoryError:
        with opened(project, given, READ) as (descriptor, real):
            require_file(descriptor, given)
            folder, _, name = real.rpartition("/")
            return folder or ".", name
