"""A project with its own store of changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flycore.runners.workspace.project_files import Project
from flycore.runners.workspace.run import Workspace
from flycore.runners.workspace.undo_store import UndoStore


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The project folder."""
    folder = Path(os.path.realpath(tmp_path)) / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(folder: Path, tmp_path: Path) -> Workspace:
    """The tools on that folder; flytui's own state and settings lie in it as well."""
    project = Project(root=folder, closed=("state",), read_only=("config",))
    return Workspace(project, UndoStore(tmp_path / "undo"))
