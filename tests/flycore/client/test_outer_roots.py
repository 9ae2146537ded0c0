"""A kernel of an outer root that says nothing decides nothing."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from flycore.client import outer_roots
from flycore.client.outer_roots import ask_outer_root
from flycore.model.enums import RootPermission
from flysafe.atomic import private_folder
from kits.kernel import Root

pytestmark = pytest.mark.anyio


async def test_a_kernel_that_does_not_answer_has_said_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Root(tmp_path)
    places = root.places
    assert await ask_outer_root(places, root.folder / "inner") is RootPermission.UNDECIDED
    monkeypatch.setattr(outer_roots, "ANSWER_SECONDS", 0.1)
    private_folder(places.socket.parent)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(places.socket))
        silent.listen()
        assert await ask_outer_root(places, root.folder / "inner") is RootPermission.UNDECIDED
