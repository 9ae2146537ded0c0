"""App roots with registries, in real folders."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from flycore.model.sidecar import Registry
from flycore.registry.load import load_registry
from flycore.registry.paths import REGISTRY_FILE, RootPaths, find_paths

KNOWN = frozenset({"web.search", "web.fetch", "file.hash", "vision.ocr", "computer.mouse"})


class Root:
    """An app root `app` and a home `home`, side by side."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.app, self.home = folder / "app", folder / "home"
        self.app.mkdir()
        self.home.mkdir()
        self.places: RootPaths = find_paths(str(self.app), None, self.environ, folder)

    @property
    def environ(self) -> Mapping[str, str]:
        return {"HOME": str(self.home)}

    @property
    def user_file(self) -> Path:
        return self.places.config_dir / REGISTRY_FILE

    def write(self, path: str | Path, content: str | bytes) -> Path:
        """Write a file below the app root (or anywhere), its folders included."""
        target = self.app / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def executable(self, path: str | Path, content: str | bytes = "#!/bin/sh\n") -> Path:
        """Write a program."""
        target = self.write(path, content)
        os.chmod(target, 0o755)
        return target

    def load(
        self,
        project: str | bytes | None = None,
        user: str | bytes | None = None,
        previous: Registry | None = None,
    ) -> Registry:
        """The registry, after writing the files that are given."""
        if project is not None:
            self.write(REGISTRY_FILE, project)
        if user is not None:
            self.write(self.user_file, user)
        return load_registry(self.places, known=KNOWN, environ=self.environ, previous=previous)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A fresh app root."""
    return Root(tmp_path)
