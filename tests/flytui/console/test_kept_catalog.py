"""The second start in a real terminal: rows as of a time while the kernel is held back, then confirmed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flycore.kernel.lock import RootLock
from flycore.model.enums import KernelRole
from flycore.offline.console_files import read_kept_catalog
from flycore.registry.paths import RootPaths, find_paths
from kits.terminals import BIN, Root, Tmux, console, make_root, needs, until

pytestmark = pytest.mark.e2e

REGISTRY = {
    "schemaVersion": 2,
    "sidecars": {
        "mock.one": {"command": "true", "probe": {"mode": "off"}, "tools": ["file.hash"], "cwd": "empty"}
    },
}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A root whose catalog was kept by the kernel of a console that has left again."""
    needs("tmux")
    made = make_root(tmp_path, json.dumps(REGISTRY, indent=1))
    made.trust()
    with console(made):
        until("the kept catalog", lambda: read_kept_catalog(places(made)) is not None)
    return made


def places(root: Root) -> RootPaths:
    return find_paths(str(root.folder), None, root.environ, root.folder)


def test_rows_are_there_before_the_kernel_and_refused_until_it_has_answered(root: Root) -> None:
    tmux = Tmux(root)
    try:
        # The kernel waits for as long as a command holds the root.
        with RootLock.acquire(places(root), KernelRole.UNKNOWN):
            tmux.open(str(BIN / "flytui"), "--root", str(root.folder))
            tmux.sees(r"◌ as of \w+ ago, not confirmed yet")
            tmux.sees(r"◌ \w+ +file\.hash")
            tmux.text("t")
            tmux.sees("not confirmed yet: nothing can be done")
            assert "policy ok" not in tmux.screen()
        tmux.sees("policy ok")
        tmux.lacks("◌")
        tmux.sees(r"[●◐○⊘] \w+ +file\.hash")
    finally:
        tmux.end()


@pytest.mark.parametrize("change", ["registry", "damage"])
def test_nothing_old_is_shown_where_files_changed_or_the_file_is_damaged(root: Root, change: str) -> None:
    if change == "registry":
        (root.folder / "tools" / "external.tools.jsonc").write_text('{"schemaVersion": 2, "sidecars": {}}')
    else:
        file = places(root).kept_catalog_file
        file.write_bytes(file.read_bytes()[:-20])
    tmux = Tmux(root)
    try:
        with RootLock.acquire(places(root), KernelRole.UNKNOWN):
            tmux.open(str(BIN / "flytui"), "--root", str(root.folder))
            tmux.sees("waiting until .* leaves this root")
            assert "◌" not in tmux.screen()
            assert "file.hash" not in tmux.screen()
        tmux.sees("policy ok")
    finally:
        tmux.end()
