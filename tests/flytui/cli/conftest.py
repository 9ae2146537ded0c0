"""A root of its own for each test of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.command_line import REGISTRY, Desk
from kits.kernels import end_kernels


def make_desk(base: Path) -> Desk:
    """A root with a registry that nobody has trusted yet."""
    made = Desk(base / "root", base / "home")
    made.root.mkdir()
    (made.home / "run").mkdir(parents=True, mode=0o700)
    made.write(REGISTRY)
    return made


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A root of this test's own, untrusted."""
    return make_desk(tmp_path)


@pytest.fixture
def trusted(desk: Desk) -> Desk:
    """The same, trusted, with a policy that lets try.echo run without asking."""
    desk.allow()
    desk.trust()
    return desk


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A trusted root that the tests of a module share: they call and look, and change nothing else."""
    base = tmp_path_factory.mktemp("settled")
    made = make_desk(base)
    made.allow()
    made.trust()
    yield made
    end_kernels(base)
