"""Suite S7, mounts: a granted folder is exchanged with a link to the outside again and again while programs
are confined to it. None of them may see the outside."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flycore.sandbox.confinement import Confinement, Mount, read_system_layout
from flycore.sandbox.launch import Launch, enforced_launch
from flysafe.beneath import OutsideAnchor
from kits.programs import needs_bubblewrap

pytestmark = pytest.mark.suite
FULL = os.environ.get("FLYTUI_SUITES") == "full"
ROUNDS = 400 if FULL else 10


@contextlib.contextmanager
def exchanged(grant: Path, outside: Path) -> Iterator[None]:
    """Meanwhile `grant` is a folder and a link to `outside` by turns."""
    stop = threading.Event()
    kept, link = grant.with_name("kept"), grant.with_name("link")
    link.symlink_to(outside)

    def exchange() -> None:
        while not stop.is_set():
            os.rename(grant, kept)
            os.rename(link, grant)
            os.rename(grant, link)
            os.rename(kept, grant)

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_no_race_brings_the_outside_in(tmp_path: Path) -> None:
    needs_bubblewrap()
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "grant", outside):
        folder.mkdir(parents=True)
    (root / "grant" / "mine").write_text("x")
    (outside / "secret").write_text("x")
    layout = read_system_layout()
    grant = str(root / "grant")
    confinement = Confinement(mounts=(Mount(grant, writable=True, anchor=str(root)),), cwd="/")
    listed = refused = 0
    with exchanged(root / "grant", outside):
        # Until enough programs ran, and some met the link: else it was no race.
        while listed < ROUNDS or not refused:
            try:
                launch = enforced_launch(confinement, layout, {}, ("/bin/ls", grant))
            except (OutsideAnchor, FileNotFoundError):
                refused += 1
                continue
            output = output_of(launch)
            assert "secret" not in output
            # bwrap compares a descriptor with its path, and starts nothing where they differ.
            if output.startswith("bwrap: "):
                refused += 1
                continue
            assert output == "mine\n"
            listed += 1


def output_of(launch: Launch) -> str:
    """Everything that the launched program printed."""
    with contextlib.ExitStack() as stack:
        stack.callback(launch.close)
        launch.let_go()
        if launch.status is not None:
            stack.callback(os.close, launch.status)
        ran = subprocess.run(
            launch.argv,
            env=dict(launch.environment),
            pass_fds=launch.descriptors,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    return ran.stdout
