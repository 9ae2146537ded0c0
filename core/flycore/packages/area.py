"""The folders of the packages of one project or of one user, opened and locked for a change."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from flycore.model.enums import PackageScope, Source
from flycore.model.errors import FlyError
from flycore.registry.paths import (
    LEGACY_REGISTRY_FILE,
    PACKAGES_DIR,
    REGISTRY_FILE,
    USER_PACKAGES_DIR,
    RootPaths,
)
from flysafe.atomic import make_folders
from flysafe.beneath import open_anchor, open_beneath

STAGING = ".staging"
PREVIOUS = ".previous"
NEXT = ".next"
"""What is added to the registry's name for the registry as it will be."""
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PACKAGE_ID = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
VERSION = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z.+!-]{0,63})")


class PackageRefused(FlyError):
    """A package, or a change of one, is refused, and nothing has changed. `code` is one word for the kind."""

    def __init__(self, code: str, message: str, next_step: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.next_step = code, message, next_step


class PackageArea(msgspec.Struct, frozen=True):
    """Where packages of one scope lie. Nothing is opened or created by it."""

    scope: PackageScope
    base: Path
    """The folder below which `folder` lies."""
    folder: str
    registry_anchor: Path
    registry: str
    """The registry's file, relative to `registry_anchor`."""
    records: Path
    """The folder of the records, which is no part of the project."""

    @property
    def source(self) -> Source:
        """The source of the entries of the registry."""
        return Source.USER if self.scope is PackageScope.USER else Source.PROJECT

    @property
    def shown_registry(self) -> str:
        """The registry's name in messages."""
        return (
            self.registry if self.scope is PackageScope.PROJECT else str(self.registry_anchor / self.registry)
        )

    def command(self, package: str, inside: str) -> str:
        """Return the command of an entry for a program inside of a package."""
        return f"./{self.folder}/{package}/{inside}"


def project_area(places: RootPaths) -> PackageArea:
    """Return where the packages of the project lie."""
    legacy = os.path.lexists(places.app_root / LEGACY_REGISTRY_FILE)
    registry = LEGACY_REGISTRY_FILE if legacy and not os.path.lexists(places.app_root / REGISTRY_FILE) else ""
    return PackageArea(
        scope=PackageScope.PROJECT,
        base=places.app_root,
        folder=PACKAGES_DIR,
        registry_anchor=places.app_root,
        registry=registry or REGISTRY_FILE,
        records=places.package_records_dir,
    )


def user_area(places: RootPaths) -> PackageArea:
    """Return where the packages of the user lie."""
    return PackageArea(
        scope=PackageScope.USER,
        base=places.data_dir,
        folder=USER_PACKAGES_DIR,
        registry_anchor=places.config_dir,
        registry=REGISTRY_FILE,
        records=places.user_package_records_dir,
    )


def areas(places: RootPaths) -> tuple[PackageArea, PackageArea]:
    """Return both areas, the project's first."""
    return project_area(places), user_area(places)


class OpenArea(msgspec.Struct, frozen=True):
    """The open folders of an area, which this process alone changes. `open_area` makes and closes it."""

    area: PackageArea
    packages: int
    staging: int
    previous: int
    registry: int
    """The folder of the registry."""

    def folder(self, name: str) -> int:
        """Return the descriptor of a folder by its name: `packages`, `staging` or `previous`."""
        return {"packages": self.packages, "staging": self.staging, "previous": self.previous}[name]

    @property
    def registry_name(self) -> str:
        """The name of the registry in its folder."""
        return os.path.basename(self.area.registry)


@contextmanager
def open_area(area: PackageArea, *, patient: bool = False) -> Iterator[OpenArea]:
    """Open the folders of an area, which are created where they are missing, and lock them for the block.
    With `patient` this waits until another process has unlocked them.

    Raises PackageRefused (`busy`) where another process changes packages there, (`links`) where one of the
    folders is a link, (`devices`) where they are on different file systems, and OSError.
    """
    with contextlib.ExitStack() as stack:
        base = _anchor(stack, area.base)
        packages = _made(stack, base, area.folder)
        try:
            fcntl.flock(packages, fcntl.LOCK_EX | (0 if patient else fcntl.LOCK_NB))
        except BlockingIOError as error:
            message = (
                f"another command or kernel changes packages in {area.base / area.folder} at this moment"
            )
            raise PackageRefused("busy", message, "try again when it has ended") from error
        staging, previous = _made(stack, packages, STAGING), _made(stack, packages, PREVIOUS)
        devices = {os.fstat(fd).st_dev for fd in (packages, staging, previous)}
        if len(devices) > 1:
            raise PackageRefused(
                "devices",
                f"{STAGING} and {PREVIOUS} are not on the file system of {area.base / area.folder}, so that "
                "nothing can be moved there in one step",
                "unmount what is mounted there",
            )
        anchor = _anchor(stack, area.registry_anchor)
        registry = _made(stack, anchor, os.path.dirname(area.registry))
        yield OpenArea(area, packages, staging, previous, registry)


def exists(area: PackageArea) -> bool:
    """Return whether there may be packages in the area."""
    return area.records.is_dir() or (area.base / area.folder).is_dir()


def _anchor(stack: contextlib.ExitStack, path: Path) -> int:
    path.mkdir(parents=True, exist_ok=True)
    fd = open_anchor(path)
    stack.callback(os.close, fd)
    return fd


def _made(stack: contextlib.ExitStack, above: int, relative: str) -> int:
    """Open a folder below a descriptor; it and its parents are created where they are missing."""
    try:
        fd = open_beneath(above, relative, FOLDER_FLAGS)
    except FileNotFoundError:
        make_folders(above, relative)
        _sync_parents(above, relative)
        fd = _open_folder(above, relative)
    except OSError as error:
        raise _link(relative, error) from error
    stack.callback(os.close, fd)
    return fd


def _open_folder(above: int, relative: str) -> int:
    try:
        return open_beneath(above, relative, FOLDER_FLAGS)
    except OSError as error:
        raise _link(relative, error) from error


def _link(relative: str, error: OSError) -> PackageRefused | OSError:
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EXDEV):
        return PackageRefused("links", f"{relative} is a link, or not a folder", "put a folder there")
    return error


def _sync_parents(above: int, relative: str) -> None:
    """Sync each folder that holds one of the new ones, so that a loss of power does not undo them."""
    parts = relative.split("/")
    for count in range(len(parts)):
        fd = open_beneath(above, "/".join(parts[:count]) or ".", os.O_RDONLY | os.O_DIRECTORY, links=True)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def present(folder: int, name: str) -> bool:
    """Return whether the folder has anything of that name."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def remove_tree(folder: int, name: str) -> None:
    """Remove a folder with its contents, or a file; nothing where there is none. Follows no links."""
    try:
        shutil.rmtree(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


def new_name() -> str:
    """Return a name for a folder that is not complete yet."""
    return f".new-{secrets.token_hex(8)}"


def version_folder(package: str, version: str) -> str:
    """Return the name of the folder of one version below `STAGING` or `PREVIOUS`."""
    return f"{package}@{version}"


def belongs_to(name: str, package: str) -> bool:
    """Return whether the name is that of a folder of one version of the package."""
    return name.rpartition("@")[0] == package or name == f".gone-{package}"
