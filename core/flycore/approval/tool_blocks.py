"""The tools that a person has blocked for every caller until they unblock them, kept in `blocks.json`.

Where the file exists and cannot be relied on, every tool is blocked, because nobody knows which tools the
file was meant to block.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from flycore.approval.state_file import read_state, write_state
from flycore.model.base import Value
from flycore.model.diagnostics import Diagnostic, Position, Severity
from flycore.model.json import digest
from flycore.model.question import Block

MAX_BYTES = 1_048_576
EVERY_TOOL = "*"
"""The tool of the only block while the file cannot be relied on. Unblocking it starts a new file."""


class _File(Value, frozen=True, kw_only=True):
    """The content of the file. The digest is over the canonical JSON of the blocks: a name in which a bit
    flipped would otherwise unblock its tool without a word."""

    blocks: tuple[Block, ...]
    digest: str


def _read(data: bytes) -> tuple[Block, ...]:
    """Return the blocks in the file. Raises msgspec.DecodeError and ValueError."""
    # Older versions wrote a list without a digest. The next block or unblocking writes it anew.
    if data.lstrip().startswith(b"["):
        return msgspec.json.decode(data, type=tuple[Block, ...])
    found = msgspec.json.decode(data, type=_File)
    if digest([msgspec.to_builtins(block) for block in found.blocks]) != found.digest:
        raise ValueError("its content does not match its digest")
    return found.blocks


class ToolBlockStore:
    """The blocked tools of one app root. Whoever writes holds the root's lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._blocks: Mapping[str, Block] = {}
        self.diagnostics: tuple[Diagnostic, ...] = ()
        """Why the file cannot be relied on."""

    @classmethod
    def load(cls, path: Path) -> ToolBlockStore:
        """Return the store with what the file holds. Never raises for the content of the file."""
        store = cls(path)
        try:
            store._blocks = {block.tool: block for block in _read(read_state(path, MAX_BYTES))}
        except FileNotFoundError:
            pass
        except (OSError, msgspec.DecodeError, UnicodeError, ValueError) as error:
            store.diagnostics = (store._fault(str(error)),)
            reason = "the list of blocked tools cannot be read"
            store._blocks = {EVERY_TOOL: Block(tool=EVERY_TOOL, since=0.0, reason=reason)}
        return store

    def all(self) -> tuple[Block, ...]:
        """Return every block, oldest first."""
        return tuple(sorted(self._blocks.values(), key=lambda block: block.since))

    def block_for(self, tool: str) -> Block | None:
        """Return the block that applies to the tool; None where it is not blocked."""
        return self._blocks.get(tool) or self._blocks.get(EVERY_TOOL)

    def block(self, tool: str, now: float, reason: str = "") -> str:
        """Block the tool. Returns why the block could not be written, and then the tool is not blocked, or an
        empty text."""
        return self._store({**self._blocks, tool: Block(tool=tool, since=now, reason=reason)})

    def unblock(self, tool: str) -> Block | None:
        """Unblock the tool, and return its block; None where it was not blocked, or the file could not be
        written."""
        block = self._blocks.get(tool)
        left = {name: item for name, item in self._blocks.items() if name != tool}
        return None if block is None or self._store(left) else block

    def _store(self, blocks: Mapping[str, Block]) -> str:
        """Write the blocks and make them valid. Returns why that failed, or an empty text."""
        # Written first: a block must not be lifted in memory while the file still holds it.
        if EVERY_TOOL in blocks:
            return (
                "the list of blocked tools cannot be read, so every tool is blocked already: unblock * first"
            )
        kept = [msgspec.to_builtins(block) for block in blocks.values()]
        try:
            write_state(self._path, {"blocks": kept, "digest": digest(kept)}, MAX_BYTES)
        except OSError as error:
            return f"the block could not be written: {error.strerror or error}"
        self._blocks, self.diagnostics = dict(blocks), ()
        return ""

    def _fault(self, why: str) -> Diagnostic:
        return Diagnostic(
            severity=Severity.ERROR,
            rule="blocks-file",
            message=f"the blocked tools cannot be read, so every tool is blocked: {why}",
            remedy="unblock * on the screen Grants of the console, then block again what you want blocked",
            position=Position(file=str(self._path), line=1, column=1),
        )
