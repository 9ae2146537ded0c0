"""Two packages, one in Python and one in shell, built as folders and archives, in versions that work and in
versions that do not; and the folders of a project that they are installed in."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tarfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flycore.packages.area import FOLDER_FLAGS, PackageArea, project_area
from flycore.packages.tree import checksum, read_tree
from flycore.registry.paths import RootPaths, find_paths

PYTHON_MAIN = """#!/usr/bin/env python3
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from words import greeting

request = json.loads(sys.stdin.readline())
if request["input"].get("probe"):
    print(json.dumps({"ok": True, "status": "healthy"}))
else:
    print(json.dumps({"ok": True, **greeting(request["input"].get("name", "you"))}))
"""
PYTHON_WORDS = """def greeting(name):
    return {{"text": f"{words}, {{name}}"}}
"""
SHELL_MAIN = """#!/bin/sh
read -r request
case "$request" in
  *'"probe"'*) printf '{{"ok": true, "status": "healthy"}}\\n' ;;
  *) printf '{{"ok": true, "text": "{words}"}}\\n' ;;
esac
"""
BROKEN_MAIN = """#!/bin/sh
exit 7
"""
REGISTRY = """// The registry of a test. Every byte outside of an edited entry stays.
{
  "schemaVersion": 2, // two
  "sidecars": {
    /* somebody else's */
    "other": {"command": "./bin/other",   "tools": ["web.search"]}, // odd   spacing
  },
}
"""


def tool(name: str, **more: Any) -> dict[str, Any]:
    """Return the description of a harmless tool."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": True}
    base = {"name": name, "description": "Greets.", "inputSchema": schema, "approvalClass": "read"}
    return base | {"risk": "low", "readOnly": True} | more


@dataclass
class Example:
    """One version of a package, as files and metadata."""

    id: str
    version: str
    command: str
    files: dict[str, tuple[str, bool]]
    """Text by path, and whether it is executable."""
    more: dict[str, Any] = field(default_factory=dict)
    """Metadata beside the usual one."""
    metadata_file: str = "sidecar.json"
    stated: str | None = None
    """The checksum that the metadata states; None for the true one, an empty text for none."""

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata without its checksum."""
        return {
            "schemaVersion": 1,
            "kind": "process-json",
            "id": self.id,
            "packageVersion": self.version,
            "command": self.command,
            "protocolVersion": "1",
            "compatibleCore": ">=0.1,<1",
            "runtime": "python3" if "python" in self.id else "sh",
            "probe": {"mode": "request", "timeoutMs": 10_000},
            "tools": [tool(f"{self.id}.greet")],
            **self.more,
        }

    def folder(self, into: Path) -> Path:
        """Write the package as a folder below `into`, and return the folder."""
        root = into / f"{self.id}-{self.version}"
        shutil.rmtree(root, ignore_errors=True)
        for path, (text, executable) in self.files.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755 if executable else 0o644)
        metadata = self.metadata
        stated = checksum_of(root) if self.stated is None else self.stated
        if stated:
            metadata["checksum"] = stated
        (root / self.metadata_file).write_text(json.dumps(metadata, indent=2))
        return root

    def tar(self, into: Path, top: str = "") -> Path:
        """Write it as a .tar.gz whose files lie below the folder `top`."""
        root = self.folder(into)
        archive = into / f"{root.name}.tar.gz"
        with tarfile.open(archive, "w:gz") as out:
            for file in sorted(root.rglob("*")):
                if file.is_file():
                    out.add(file, f"{top}{file.relative_to(root)}")
        return archive

    def zip(self, into: Path) -> Path:
        """Write it as a .zip."""
        root = self.folder(into)
        archive = into / f"{root.name}.zip"
        with zipfile.ZipFile(archive, "w") as out:
            for file in sorted(root.rglob("*")):
                if file.is_file():
                    out.write(file, str(file.relative_to(root)))
        return archive


def checksum_of(root: Path) -> str:
    """Return the checksum over all files of a folder."""
    fd = os.open(root, FOLDER_FLAGS)
    try:
        return checksum(read_tree(fd))
    finally:
        os.close(fd)


def python_example(version: str = "1.0.0", words: str = "hello", **more: Any) -> Example:
    """Return a package in Python, with a module of its own beside its program."""
    files = {
        "bin/greet": (PYTHON_MAIN, True),
        "lib/words.py": (PYTHON_WORDS.format(words=words), False),
        "README.md": ("Greets.\n", False),
    }
    return Example("greet-python", version, "./bin/greet", files, more)


def shell_example(version: str = "1.0.0", words: str = "hello", **more: Any) -> Example:
    """Return a package of one shell script."""
    return Example("greet-shell", version, "run.sh", {"run.sh": (SHELL_MAIN.format(words=words), True)}, more)


def broken_example(version: str = "2.0.0", **more: Any) -> Example:
    """Return a version of the shell package that does not answer its probe."""
    return Example("greet-shell", version, "run.sh", {"run.sh": (BROKEN_MAIN, True)}, more)


def places_in(folder: Path) -> RootPaths:
    """Return the paths of a project below `folder`, with user folders of its own."""
    root = folder / "root"
    (root / "tools").mkdir(parents=True, exist_ok=True)
    names = {"CONFIG": "config", "STATE": "state", "DATA": "data", "CACHE": "cache"}
    environ = {f"XDG_{key}_HOME": str(folder / "home" / name) for key, name in names.items()}
    return find_paths(str(root), None, {**environ, "HOME": str(folder / "home")}, root)


def area_in(folder: Path, registry: str | None = REGISTRY) -> PackageArea:
    """Return the area of a project below `folder`, with that registry."""
    places = places_in(folder)
    if registry is not None:
        (places.app_root / "tools" / "external.tools.jsonc").write_text(registry)
    return project_area(places)


def tree_facts(root: Path) -> dict[str, tuple[int, bytes]]:
    """Return mode and bytes of each file below a folder, by its path."""
    return {
        str(file.relative_to(root)): (stat.S_IMODE(file.stat().st_mode), file.read_bytes())
        for file in sorted(root.rglob("*"))
        if file.is_file()
    }
