"""The section “The first five minutes” of README, followed to the letter: its commands, in its order, and its
keys. Nothing of it is repeated here, so a change of the text is a change of this test."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kits.terminals import PATIENCE, REPOSITORY, Root, Tmux, needs, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
SECTION = re.compile(r"^## The first five minutes\n(.*?)^## ", re.MULTILINE | re.DOTALL)
STEP = re.compile(r"^\*\*\d\. ", re.MULTILINE)
BLOCK = re.compile(r"^```sh[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KEY = re.compile(r"(?:[Pp]ress|[Kk]ey) `(.)`")


def steps() -> list[str]:
    """The texts of the section's steps, without what stands before the first one."""
    found = SECTION.search((REPOSITORY / "README.md").read_text())
    assert found is not None
    return STEP.split(found[1])[1:]


def commands(step: str) -> str:
    """The lines that a person pastes into the other terminal."""
    return "".join(BLOCK.findall(step))


def keys(step: str) -> list[str]:
    """The keys that the step names, in order."""
    return KEY.findall(step)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Root]:
    """The repository as it is after `make run` has set it up once, and nothing else: no state, no PATH."""
    needs("tmux", "make", "bash")
    folder, home = tmp_path / "flytui", tmp_path / "home"
    (folder / "tools").mkdir(parents=True)
    home.mkdir()
    for name in ("Makefile", "pyproject.toml", "README.md", "tools/external.tools.jsonc"):
        shutil.copy2(REPOSITORY / name, folder / name)
    installed = Path(sys.prefix)
    (folder / ".venv").mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        (folder / ".venv" / name).symlink_to(installed / name)
    (folder / ".venv" / ".run-stamp").touch()
    root = Root(folder, home, extra={"PATH": "/usr/local/bin:/usr/bin:/bin"})
    yield root
    root.end()


class OtherTerminal:
    """A shell beside the console, which keeps what an earlier command exported."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._before = ""

    def start(self, text: str) -> subprocess.Popen[str]:
        script = f"set -e\n{self._before}{text}"
        self._before += "".join(line + "\n" for line in text.splitlines() if line.startswith("export "))
        process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-c", script],
            cwd=self._root.folder,
            env=self._root.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._root.started.append(process)
        return process

    def run(self, text: str) -> str:
        process = self.start(text)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, (text, err)
        return out


def test_the_first_five_minutes(fresh: Root) -> None:
    trust, catalog, harmless, approval, back, own = steps()
    terminal, tmux = OtherTerminal(fresh), Tmux(fresh, 120, 50)
    assert "`make run`" in trust
    tmux.open("make run")
    try:
        tmux.sees("keys ready|PgDn|PgUp|Space")
        press_until(
            tmux, keys(trust)[0], lambda: re.search(r"available +file\.hash", tmux.screen()), scroll=True
        )
        for name in re.findall(r"`(mock\.echo|example\.missing)`", catalog):
            tmux.sees(re.escape(name))
        tmux.keys(keys(catalog)[0])
        tmux.sees("[Kk]eys")
        tmux.keys("Escape")

        assert "sha256" in terminal.run(commands(harmless))
        calling = terminal.start(commands(approval))
        if "trying it out" not in str(tmux.sees("trying it out|ctrl.o opens").string):
            tmux.keys("C-o")  # the key that was pressed just before kept the card from opening by itself
        tmux.sees("trying it out")
        press_until(tmux, keys(approval)[0], lambda: calling.poll() is not None)
        assert (calling.communicate(timeout=PATIENCE)[0] != "", calling.returncode) == (True, 0)

        tmux.keys(keys(back)[0])
        tmux.sees(r"mock\.echo")
        assert "mock.echo" in terminal.run(commands(back))
    finally:
        tmux.end()
    begin_own_project(fresh, own)


def begin_own_project(fresh: Root, step: str) -> None:
    """Open a console in an empty folder, and write its first registry."""
    folder = fresh.home / "your-project"
    folder.mkdir()
    path = f"{fresh.folder}/.venv/bin:{fresh.extra['PATH']}"
    project = Root(folder, fresh.home, extra={"PATH": path})
    tmux = Tmux(project, 120, 50)
    assert "cd ~/your-project\nflytui" in step
    assert "pressed `a`" in step
    tmux.open("flytui")
    try:
        tmux.sees(r"available +workspace\.read")
        tmux.keys(keys(step)[0])
        tmux.sees(r"entries ticked, for tools/external\.tools\.jsonc")
        tmux.keys(re.findall(r"`(Enter)`", step)[0])
        tmux.sees("keys ready|last line|more pages? before")
        press_until(tmux, "a", (folder / "tools/external.tools.jsonc").exists, scroll=True)
    finally:
        tmux.end()
        project.end()


def press_until(tmux: Tmux, key: str, done: Callable[[], object], *, scroll: bool = False) -> None:
    """Press the key as a person does, who reads first, until it has had its effect: it has to arm."""

    def happened() -> bool:
        if done():
            return True
        if scroll and re.search(r"read to the last line|more pages? before", tmux.screen()):
            tmux.keys("PageDown")
        elif "keys ready" in tmux.screen():
            tmux.keys(key)
        return False

    try:
        until(f"the effect of {key}", happened)
    except BaseException:
        print(tmux.screen())
        raise
