"""What a call did to protected paths: those that it made are moved aside, and replaced links are put back."""

from __future__ import annotations

import errno
import os
import posixpath
import secrets
import stat
from contextlib import suppress
from pathlib import Path

import msgspec

from flycore.policy.agent_commands.git_repository import config_items, is_plain
from flycore.sandbox.call_confinement import NotPermitted
from flycore.sandbox.protected_files import (
    ProtectedFile,
    ProtectedFiles,
    at_or_below_any,
    files_in,
    read_text,
    relative_path,
)
from flysafe.beneath import open_anchor, open_beneath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What a call did to protected paths, and what was done about it. Paths are relative to the project if
    they lie in it."""

    moved: tuple[tuple[str, str, str], ...] = ()
    """Each path that appeared: its name, why it is protected, and where it is now; empty if it could not be
    moved."""
    put_back: tuple[str, ...] = ()
    """Links that were replaced and are as before."""
    changed: tuple[str, ...] = ()
    """Files that were changed or removed in the meantime."""
    unread: str = ""
    """Why not everything could be looked at; empty if it was."""

    @property
    def clean(self) -> bool:
        """Whether nothing protected was touched."""
        return not (self.moved or self.put_back or self.changed or self.unread)


def settle(before: ProtectedFiles, aside: Path) -> Settled:
    """Move the protected paths that appeared since `before` into the folder `aside`, and return what was
    found. Nothing of the call may run any more. Not for the event loop."""
    try:
        after = {file.path: file for file in files_in(before)}
    except NotPermitted as error:
        return Settled(unread=f"{error}")
    old = {file.path: file for file in before.files}
    put_back: list[str] = []
    changed: list[str] = []
    for path, file in old.items():
        now = after.get(path)
        if now is not None and now.stamp == file.stamp:
            continue
        shown = relative_path(path, before.app_root)
        if file.link:
            if _put_back(file, now, aside, before.app_root):
                put_back.append(shown)
            else:
                changed.append(shown)
        elif before.compared or (now is not None and now.link):
            changed.append(shown)
    moved: list[tuple[str, str, str]] = []
    done: list[str] = []
    for path, file in sorted(after.items()):
        if path in old or at_or_below_any(path, done) or _is_harmless(file, before):
            continue
        done.append(path)
        place = _move_aside(file, aside, before.app_root)
        moved.append((relative_path(path, before.app_root), file.protection.why, place))
    return Settled(moved=tuple(moved), put_back=tuple(put_back), changed=tuple(changed))


def _put_back(file: ProtectedFile, now: ProtectedFile | None, aside: Path, app_root: str) -> bool:
    """Make a link again that was replaced or removed."""
    if now is not None and not _move_aside(now, aside, app_root):
        return False
    parent, name = posixpath.split(file.relative)
    try:
        with _Opened(file.grant, parent) as folder:
            os.symlink(file.link, name, dir_fd=folder)
    except OSError:
        return False
    return True


def _move_aside(file: ProtectedFile, aside: Path, app_root: str) -> str:
    """Move the file or folder, and return where it is now; empty if that failed."""
    place = aside / relative_path(file.path, app_root).lstrip("/")
    parent, name = posixpath.split(file.relative)
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _Opened(file.grant, parent) as folder:
            mode = stat.S_IMODE(os.fstat(folder).st_mode)
            # The program may have taken the right to write from the folder, which is the user's own.
            os.fchmod(folder, mode | stat.S_IWUSR | stat.S_IXUSR)
            try:
                _give_rights(folder, name)
                return _renamed(folder, name, place)
            finally:
                os.fchmod(folder, mode)
    except OSError:
        return ""


def _give_rights(folder: int, name: str) -> None:
    """Let a folder be moved: that changes its entry `..`, which needs the right to write in it."""
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            os.chmod(f"/proc/self/fd/{descriptor}", stat.S_IMODE(mode) | stat.S_IRWXU)
    finally:
        os.close(descriptor)


def _renamed(folder: int, name: str, place: Path) -> str:
    try:
        os.rename(name, place, src_dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.ENOTEMPTY, errno.EEXIST):
            raise
        # On another file system: under a name that no program looks for.
        beside = f"{name}.moved-aside-{secrets.token_hex(4)}"
        os.rename(name, beside, src_dir_fd=folder, dst_dir_fd=folder)
        return beside
    return str(place)


class _Opened:
    """The descriptor of a folder below a grant, opened without following links."""

    def __init__(self, grant: str, relative: str) -> None:
        self._anchor = open_anchor(grant)
        try:
            self._folder = open_beneath(self._anchor, relative or ".", _FOLDER)
        except OSError:
            os.close(self._anchor)
            raise

    def __enter__(self) -> int:
        return self._folder

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)
        os.close(self._anchor)


# New repositories, such as those of `git init` and `git worktree add`, are left alone as long as nothing in
# them can start a program.


def _is_harmless(file: ProtectedFile, before: ProtectedFiles) -> bool:
    parent = os.path.dirname(file.path)
    with suppress(OSError, ValueError, UnicodeDecodeError):
        match file.protection.name:
            case ".git/hooks":
                return not file.link and all(one.endswith(".sample") for one in os.listdir(file.path))
            case ".git/config" | ".git/config.worktree":
                return not file.link and all(_is_data(*item) for item in config_items(read_text(file.path)))
            case ".git/commondir":
                repository = os.path.realpath(os.path.join(parent, read_text(file.path).strip()))
                return not file.link and repository == os.path.dirname(os.path.dirname(parent))
            case ".git":  # the file of a worktree or submodule
                key, _, target = read_text(file.path).partition(":")
                real = os.path.realpath(os.path.join(parent, target.strip()))
                tops = [before.app_root, *(grant for grant, _ in before.grants)]
                return not file.link and key == "gitdir" and at_or_below_any(real, tops)
    return False


def _is_data(key: str, value: str) -> bool:
    # With "::" an address names the program that reaches it (gitremote-helpers(7)).
    return is_plain(key) and key != "core.hookspath" and "::" not in value
