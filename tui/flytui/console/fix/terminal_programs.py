"""What the console can mend things with: the person's editor, and the terminal to run a program on."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from flycore.model.diagnostics import Fix, FixKind

RunProgram = Callable[[tuple[str, ...], bool], Awaitable[int]]
"""Runs a program on the terminal that was lent, to its end: argv, and whether its output is to be read before
the console comes back. Gives the exit status, 127 where it could not be started."""

_PLUS_LINE_EDITORS = frozenset(
    ("vi", "vim", "nvim", "view", "nano", "pico", "emacs", "emacsclient", "joe", "mg", "ne", "kak")
)
_COLON_LINE_EDITORS = frozenset(("hx", "helix", "micro", "subl", "zed"))
_GOTO_EDITORS = frozenset(("code", "codium", "code-insiders", "cursor"))


@dataclass(frozen=True, slots=True)
class TerminalPrograms:
    """Handed in by whoever opened the console on a terminal."""

    root: str
    """The app root, absolute."""
    home: str
    editor: tuple[str, ...]
    """The person's editor and its arguments; empty where none was found."""
    starter: str
    """Text of the starter registry."""
    run: RunProgram

    def argv(self, fix: Fix) -> tuple[str, ...]:
        """The program that does the fix; empty where no program does."""
        if fix.kind is FixKind.COMMAND:
            return fix.argv
        if fix.kind is FixKind.EDIT and self.editor:
            return edit_argv(self.editor, self.path(fix.file), fix.line)
        return ()

    def path(self, file: str) -> str:
        """Where a file of a fix lies, absolute."""
        if file.startswith("~/"):
            return os.path.join(self.home, file[2:])
        return os.path.join(self.root, file)


def edit_argv(editor: tuple[str, ...], path: str, line: int) -> tuple[str, ...]:
    """The editor on that file, at that line where it is one that can be told. `path` is absolute."""
    name = os.path.basename(editor[0])
    if line < 1:
        return (*editor, path)
    if name in _PLUS_LINE_EDITORS:
        return (*editor, f"+{line}", path)
    if name in _COLON_LINE_EDITORS:
        return (*editor, f"{path}:{line}")
    if name in _GOTO_EDITORS:
        return (*editor, "--wait", "--goto", f"{path}:{line}")
    return (*editor, path)
