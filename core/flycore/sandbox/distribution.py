"""The files of the installed flytui, by which its own sidecars are told from all other programs."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

import flycore
from flycore.model.json import digest
from flycore.sandbox.digests import file_digest
from flycore.sandbox.observed_files import note_content, real_path

NAME = "flytui"
SCRIPT = "flytui-sidecar"
SIDECARS = frozenset(
    {
        "browser.cdp",
        "computer.native",
        "media.local",
        "mock.echo",
        "utility.local",
        "web.search",
        "wtype",
        "xdotool",
        "ydotool",
    }
)
"""The names that `flytui-sidecar` starts. A test checks that they are those of its own table."""
PACKAGES = ("flycore", "flysafe", "flytui", "flysidecars")


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """The installed distribution. All paths are absolute, with links followed."""

    script: str
    """The console script that starts the bundled sidecars."""
    files: tuple[tuple[str, str], ...] = ()
    """Path and hexadecimal SHA-256 of each file in the record of a regular installation; the hash may be
    empty."""
    packages: tuple[str, ...] = ()
    """The folders of our packages in an editable installation, which has no record of their files."""

    @property
    def editable(self) -> bool:
        """Whether the distribution runs from a source folder."""
        return bool(self.packages)

    def digest(self) -> str:
        """The digest over every file, each read again where it changed. Raises OSError where one is missing
        or differs from the record."""
        found = {path: file_digest(path)[1] for path in self._paths()}
        for path, recorded in self.files:
            if recorded and found[path] != recorded:
                raise OSError(None, "is not the file that was installed", path)
        return digest(found)

    def _paths(self) -> list[str]:
        paths = [path for path, _ in self.files]
        for package in self.packages:
            for folder, folders, names in os.walk(package):
                folders[:] = [name for name in folders if name != "__pycache__"]
                note_content(folder, os.lstat(folder))
                for name in names:
                    path = os.path.join(folder, name)
                    paths.append(real_path(path) or path if os.path.islink(path) else path)
        return sorted({self.script, *paths})


def find_distribution(interpreter_dir: Path) -> Distribution | None:
    """The distribution whose console script lies in `interpreter_dir`; None where there is none, or where a
    part of it is missing."""
    script = os.path.realpath(interpreter_dir / SCRIPT)
    metadata = _metadata_folder()
    if metadata is None or not os.path.isfile(script):
        return None
    if _is_editable(metadata):
        packages = _package_folders()
        return Distribution(script=script, packages=packages) if len(packages) == len(PACKAGES) else None
    files = tuple(_recorded_files(metadata))
    return Distribution(script=script, files=files) if any(path == script for path, _ in files) else None


def _metadata_folder() -> str | None:
    """The folder in which the installation of this very version is described."""
    # Not by importlib.metadata, whose import takes longer than to read the registry. A test compares the two.
    name = f"{NAME}-{flycore.__version__}.dist-info"
    folders = (os.path.join(entry, name) for entry in sys.path)
    return next(filter(os.path.isdir, folders), None)


def _is_editable(metadata: str) -> bool:
    """Whether `direct_url.json` (PEP 610) says that the installation is one of a source folder."""
    import json

    try:
        with open(os.path.join(metadata, "direct_url.json"), encoding="utf-8") as file:
            value = json.load(file)
    except FileNotFoundError:
        return False
    return bool(value.get("dir_info", {}).get("editable"))


def _recorded_files(metadata: str) -> Iterator[tuple[str, str]]:
    """Yield path and hash of each file of the installer's record, which is `RECORD` of PEP 376: lines of CSV
    with a path relative to the folder above, a hash such as `sha256=…`, and a size."""
    import csv

    above = os.path.dirname(metadata)
    with (
        suppress(FileNotFoundError),
        open(os.path.join(metadata, "RECORD"), encoding="utf-8", newline="") as file,
    ):
        for columns in csv.reader(file):
            if columns and not columns[0].endswith(".pyc"):
                recorded = columns[1] if len(columns) > 1 else ""
                yield os.path.realpath(os.path.join(above, columns[0])), _hex(recorded.partition("=")[2])


def _package_folders() -> tuple[str, ...]:
    from importlib.util import find_spec

    specs = (find_spec(name) for name in PACKAGES)
    return tuple(os.path.realpath(os.path.dirname(spec.origin)) for spec in specs if spec and spec.origin)


def _hex(recorded: str) -> str:
    """The hexadecimal form of a hash that the record has as URL-safe base64 without padding."""
    return base64.urlsafe_b64decode(recorded + "=" * (-len(recorded) % 4)).hex()
