"""The programs that a fix can run on the terminal: the fix's own command, or the person's editor; and the
viewer of pictures, which runs beside it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

import msgspec

from flycore.model.diagnostics import Fix, FixKind

RunProgram = Callable[[tuple[str, ...], bool], Awaitable[int]]
"""Runs a program on the terminal to its end. Its arguments are argv, and whether to wait for a key
afterwards, so that the person can read the output. It gives the exit status, and 127 where the program could
not be started."""

ViewFile = Callable[[str], Awaitable[int]]
"""Opens the file of that absolute path in the system's viewer, which has no part of the terminal. It gives
the exit status of the program that starts the viewer. Raises OSError where that could not be started."""

_PLUS_LINE_EDITORS = frozenset(
    ("vi", "vim", "nvim", "view", "nano", "pico", "emacs", "emacsclient", "joe", "mg", "ne", "kak")
)
_COLON_LINE_EDITORS = frozenset(("hx", "helix", "micro", "subl", "zed"))
_GOTO_EDITORS = frozenset(("code", "codium", "code-insiders", "cursor"))


class TerminalPrograms(msgspec.Struct, frozen=True):
    """What a console on a terminal needs to run a fix. A console without a terminal has none."""

    root: str
    """The app root, absolute."""
    home: str
    editor: tuple[str, ...]
    """The person's editor and its arguments; empty where none was found."""
    run: RunProgram
    view: ViewFile | None = None
    """The system's viewer; None where there is no desktop or no program that starts its viewer."""

    def argv(self, fix: Fix) -> tuple[str, ...]:
        """The arguments of the program that does the fix; empty where no program does."""
        if fix.kind is FixKind.COMMAND:
            return fix.argv
        if fix.kind is FixKind.EDIT and self.editor:
            return edit_argv(self.editor, self.path(fix.file), fix.line)
        return ()

    def path(self, file: str) -> str:
        """The absolute path of a file that a fix names, relative to the app root or to `~`."""
        if file.startswith("~/"):
            return os.path.join(self.home, file[2:])
        return os.path.join(self.root, file)


def edit_argv(editor: tuple[str, ...], path: str, line: int) -> tuple[str, ...]:
    """The arguments that open the editor on the file, at the line where it is an editor whose option for that
    is known. `path` is absolute; `line` counts from 1, and 0 means no line."""
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
