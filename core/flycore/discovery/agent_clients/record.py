"""The record of what was written into clients' files, by which exactly that is taken back."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from flycore.discovery.agent_clients.edit import ClientEdit, Piece, remove_values, take_back
from flycore.discovery.agent_clients.table import ClientFile, Form, Part, Wanted
from flycore.model.base import Value
from flycore.model.json import Json
from flycore.store.json_store import Store

MAX_RECORD_BYTES = 1024 * 1024
MAX_FILE_BYTES = 4 * 1024 * 1024


class WrittenValue(Value, frozen=True, kw_only=True):
    """One value that was written."""

    part: Part
    pointer: str
    value: Json
    is_item: bool


class WrittenFile(Value, frozen=True, kw_only=True):
    """What was written into one file for one client."""

    client: str
    path: str
    in_home: bool
    form: Form
    created: bool
    """Whether the file was made for it."""
    folders: tuple[str, ...] = ()
    """The folders that were made for it, outermost first."""
    before: str
    """Digest of the text before it, `""` where there was no file."""
    after: str
    pieces: tuple[tuple[int, str], ...]
    """The offset and the text of each insertion."""
    values: tuple[WrittenValue, ...]

    @property
    def file(self) -> ClientFile:
        """The file."""
        return ClientFile(self.path, self.form, self.in_home)

    @property
    def wanted(self) -> tuple[Wanted, ...]:
        """The values as they were wanted."""
        return tuple(Wanted(one.part, self.file, one.pointer, one.value, one.is_item) for one in self.values)


class Restored(NamedTuple):
    """The text of a file without what was written; None where the file was made for it. Or why it stays."""

    text: str | None = None
    why_not: str = ""


def digest_of_text(text: str) -> str:
    """Return the digest by which a text is recognised."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def restored(text: str, written: WrittenFile) -> Restored:
    """Return the text as it would be if nothing had been written.

    An unchanged file gets its earlier bytes back. Of a file that was changed since, only the values go, and
    only where they are still as they were written.
    """
    pieces = tuple(Piece(at, piece) for at, piece in written.pieces)
    if digest_of_text(text) == written.after:
        earlier = "" if written.created else take_back(text, pieces)
        if earlier is not None and written.created:
            return Restored(None)
        if earlier is not None and digest_of_text(earlier) == written.before:
            return Restored(earlier)
    left: ClientEdit = remove_values(text, written.form, written.wanted, pieces)
    return Restored(left.text, left.why_not)


def written_store(file: Path) -> Store[tuple[WrittenFile, ...]]:
    """Return the store of the records. A file that cannot be read has none: then nothing is taken back by
    it."""
    return Store[tuple[WrittenFile, ...]](file, tuple[WrittenFile, ...], (), MAX_RECORD_BYTES)
