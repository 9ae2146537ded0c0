"""The documented client: what `import flycore` offers a program of one's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import flycore
from flycore.registry.paths import find_paths
from kits.kernel import ECHO, Root, kernel_of, tool

PROGRAM = """
import anyio
import flycore

async def main() -> None:
    async with flycore.connect() as kernel:
        result = await kernel.call("echo.free", {"message": "hello"})
    assert result.status is flycore.Status.SUCCESS, result
    print(result.tool)

anyio.run(main)
"""
HEAVY = ("anyio", "msgspec", "websockets", "textual", "mcp", "click")


@pytest.fixture
async def root(tmp_path: Path) -> Root:
    found = Root(tmp_path)
    found.sidecar("echo", ECHO, tool("echo.free"))
    found.policy({"tool": "echo.free", "decision": "allow", "because": "test"})
    async with kernel_of(found):
        pass
    return found


def python(text: str, cwd: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A program of one's own."""
    return subprocess.run(
        [sys.executable, "-c", text],
        cwd=cwd,
        env={**environ, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.anyio
@pytest.mark.parametrize("below", [".", "src/deep"])
async def test_a_program_in_the_project_finds_its_root(root: Root, below: str) -> None:
    folder = root.folder / below
    folder.mkdir(parents=True, exist_ok=True)
    done = python(PROGRAM, folder, root.environ)
    assert done.stdout == "echo.free\n", done.stderr


@pytest.mark.anyio
@pytest.mark.parametrize("kind", [str, Path, lambda root: find_paths(str(root), None, os.environ, root)])
async def test_a_root_may_be_named(root: Root, monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    for name, value in root.environ.items():
        monkeypatch.setenv(name, value)
    async with flycore.connect(kind(root.folder)) as kernel:
        assert (await kernel.status()).app_root == str(root.folder)


@pytest.mark.anyio
async def test_without_a_kernel_of_its_own_it_says_that_none_is_there(root: Root) -> None:
    with pytest.raises(flycore.KernelUnreachable):
        async with flycore.connect(root.places, start=False):
            pass


def test_every_public_name_is_there_and_no_other() -> None:
    for name in flycore._HOMES:
        assert getattr(flycore, name).__name__ == name
        assert name in dir(flycore)
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        flycore.__getattr__("conect")


def test_importing_the_package_imports_nothing_else(tmp_path: Path) -> None:
    text = f"import flycore, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert python(text, tmp_path, {}).stdout == "[]\n"
