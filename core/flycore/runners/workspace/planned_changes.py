"""What a call would change: for each file its bytes before and after, worked out and not yet written."""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence

from flycore.model.base import Value
from flycore.model.json import JsonObject
from flycore.runners.workspace.project_files import (
    READ,
    PathRefused,
    Project,
    anchor_of,
    failure_text,
    opened,
    real_relative,
    refuse_protected,
    relative_path,
    require_file,
    shown,
)
from flycore.runners.workspace.text_changes import (
    MOST_FILE_BYTES,
    ChangeDoesNotFit,
    apply_change,
    diff_lines,
)
from flycore.runners.workspace.unified_diff import FilePatch, apply_hunks, parse_patch
from flysafe.beneath import OutsideAnchor, open_beneath
from flysafe.protected_paths import protection_of

READ_TOOL, LIST_TOOL, SEARCH_TOOL = "workspace.read", "workspace.list", "workspace.search"
WRITE_TOOL, EDIT_TOOL, PATCH_TOOL = "workspace.write", "workspace.edit", "workspace.patch"
CHANGING = frozenset((WRITE_TOOL, EDIT_TOOL, PATCH_TOOL))
"""The tools that change files."""
NEW_FILE = "new"
"""Stands in place of the digest of a file that does not exist yet."""
MOST_BYTES = 64 * 1024 * 1024
"""Bytes of all files of one change together, before and after."""
_NEW_MODE = 0o666
"""Mode of a new file before the umask, as programs make files."""


class FileChange(Value, frozen=True):
    """The change of one file. `path` is its real path, relative to the project."""

    path: str
    before: bytes | None
    """None for a file that does not exist yet."""
    after: bytes | None
    """None for a file that is deleted."""
    mode: int
    """The permissions of the file that is there, or the new file's."""

    @property
    def kind(self) -> str:
        """What becomes of the file: `created`, `changed`, `deleted` or `unchanged`."""
        if self.before == self.after:
            return "unchanged"
        return "created" if self.before is None else "deleted" if self.after is None else "changed"

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes before, or `NEW_FILE`."""
        return digest_of(self.before)

    def document(self) -> JsonObject:
        """Return the change as the result names it."""
        return {"path": shown(self.path), "change": self.kind, "bytes": len(self.after or b"")}


def digest_of(data: bytes | None) -> str:
    """Return the SHA-256 of a file's bytes; `NEW_FILE` where there is no file."""
    return NEW_FILE if data is None else hashlib.sha256(data).hexdigest()


def plan_changes(project: Project, tool: str, input: JsonObject) -> tuple[FileChange, ...]:
    """Return what a call of a changing tool would change. Writes nothing.

    Raises PathRefused for a path that may not be written, and ChangeDoesNotFit where the change does not fit
    the files as they are.
    """
    match tool:
        case "workspace.write":
            changes = [_written(project, str(input["path"]), str(input["content"]))]
        case "workspace.edit":
            changes = [_edited(project, str(input["path"]), input)]
        case _:
            changes = [_patched(project, patch) for patch in parse_patch(str(input["patch"]))]
    paths = [change.path for change in changes]
    if len(set(paths)) < len(paths):
        raise ChangeDoesNotFit("two files of the patch are the same one, by a link")
    if sum(len(change.before or b"") + len(change.after or b"") for change in changes) > MOST_BYTES:
        raise ChangeDoesNotFit(f"more than {MOST_BYTES // 1024 // 1024} MiB would change at once")
    return tuple(changes)


def protected_change(project: Project, tool: str, input: JsonObject) -> str:
    """Return why a person is asked about each such call: it would change a file that runs by itself. Empty if
    it would not, and for a change that cannot be made."""
    try:
        paths = [change.path for change in plan_changes(project, tool, input)]
    except (PathRefused, ChangeDoesNotFit):
        return ""
    found = ((path, protection_of(path)) for path in paths)
    return next((f"it changes {shown(path)}: {one.why}" for path, one in found if one is not None), "")


def diff_of(changes: Sequence[FileChange]) -> tuple[str, ...]:
    """Return the changes as lines for a person; of several files each begins with a line that names it."""
    return tuple(_diff(changes))


def _diff(changes: Sequence[FileChange]) -> Iterator[str]:
    for change in changes:
        if len(changes) > 1:
            yield f"== {shown(change.path)} ({change.kind})"
        yield from diff_lines(_shown_text(change.before), _shown_text(change.after))


def _shown_text(data: bytes | None) -> str:
    # A file that is replaced as a whole may be no text.
    return (data or b"").decode("utf-8", "backslashreplace")


def _written(project: Project, given: str, content: str) -> FileChange:
    path, before, mode = _present(project, given)
    return FileChange(path, before, _encoded(content), mode)


def _edited(project: Project, given: str, input: JsonObject) -> FileChange:
    path, before, mode = _present(project, given)
    if before is None:
        raise ChangeDoesNotFit(f"there is no file {given}: workspace.write makes one")
    if ("edits" in input) == ("old" in input and "new" in input):
        raise ChangeDoesNotFit("give either old and new, or edits")
    edits = input.get("edits", [{key: input[key] for key in ("old", "new", "all") if key in input}])
    return FileChange(path, before, _encoded(apply_change(_text(before, given), {"edits": edits})), mode)


def _patched(project: Project, patch: FilePatch) -> FileChange:
    path, before, mode = _present(project, patch.path)
    if patch.creates:
        if before is not None:
            raise ChangeDoesNotFit(f"{patch.path} is there already, and the patch makes it")
        return FileChange(path, None, _encoded("".join(patch.hunks[0].new)), mode)
    if before is None:
        raise ChangeDoesNotFit(f"there is no file {patch.path}")
    after = apply_hunks(_text(before, patch.path), patch)
    if patch.deletes:
        if after:
            raise ChangeDoesNotFit(f"the patch deletes {patch.path}, which has more than it removes")
        return FileChange(path, before, None, mode)
    return FileChange(path, before, _encoded(after), mode)


def _encoded(text: str) -> bytes:
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise ChangeDoesNotFit("the new text holds half a character, which no UTF-8 file can") from None
    if len(data) > MOST_FILE_BYTES:
        raise ChangeDoesNotFit(f"the file would be larger than {MOST_FILE_BYTES // 1024 // 1024} MiB")
    return data


def _text(data: bytes, given: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ChangeDoesNotFit(f"{given} is no UTF-8 text") from None


def _present(project: Project, given: str) -> tuple[str, bytes | None, int]:
    """Return the real path, the bytes and the mode of a file that is to be written.

    Bytes are None where there is none. Raises PathRefused, and ChangeDoesNotFit where it cannot be read.
    """
    refuse_protected(project, relative_path(project, given))
    try:
        with opened(project, given, READ) as (descriptor, real):
            about = require_file(descriptor, given)
            with os.fdopen(os.dup(descriptor), "rb") as file:
                data = file.read(MOST_FILE_BYTES + 1)
    except FileNotFoundError:
        return _absent(project, given), None, _NEW_MODE & ~_umask()
    except OSError as error:
        raise ChangeDoesNotFit(failure_text(error, given)) from error
    if len(data) > MOST_FILE_BYTES:
        raise ChangeDoesNotFit(f"{given} is larger than {MOST_FILE_BYTES // 1024 // 1024} MiB")
    refuse_protected(project, real)
    return real, data, stat.S_IMODE(about.st_mode)


def _absent(project: Project, given: str) -> str:
    """Return the path of a new file, below the real path of the deepest folder that is there."""
    relative = relative_path(project, given)
    folder, missing = posixpath.dirname(relative), [posixpath.basename(relative)]
    with anchor_of(project) as anchor:
        while True:
            try:
                descriptor = open_beneath(anchor, folder or ".", os.O_RDONLY | os.O_DIRECTORY, links=True)
            except FileNotFoundError:
                if not folder:
                    raise ChangeDoesNotFit("the project folder is gone") from None
                missing.insert(0, posixpath.basename(folder))
                folder = posixpath.dirname(folder)
                continue
            except OutsideAnchor:
                raise PathRefused(f"{given} leads out of the project folder by a link") from None
            except OSError as error:
                raise ChangeDoesNotFit(failure_text(error, given)) from error
            try:
                real = real_relative(anchor, descriptor)
            finally:
                os.close(descriptor)
            break
    path = posixpath.normpath(posixpath.join(real, *missing))
    refuse_protected(project, path)
    _refuse_broken_link(project, path)
    return path


def _refuse_broken_link(project: Project, path: str) -> None:
    """Raise ChangeDoesNotFit where the name is a link that leads nowhere: a new file would replace it."""
    with anchor_of(project) as anchor:
        try:
            os.close(open_beneath(anchor, path, os.O_PATH | os.O_NOFOLLOW))
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise ChangeDoesNotFit(failure_text(error, path)) from error
    raise ChangeDoesNotFit(f"{path} is a link that leads nowhere, or was made a moment ago")


def _umask() -> int:
    """Return the umask of this process."""
    # Read from /proc: setting it to read it would change it for the files that other threads make.
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except (OSError, ValueError):
        pass
    return 0o077
