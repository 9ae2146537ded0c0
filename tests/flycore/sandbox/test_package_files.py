"""Packages through a real kernel: run from a copy that has everything the package has, and nothing else."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import sys
from pathlib import Path
from typing import Any

import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.approval import Ask
from flycore.model.call import ToolResult
from flycore.model.enums import Code, Level, SealKind, Status
from kits.kernel import (
    Root,
    answered_call,
    approve,
    approved_call,
    kernel_of,
    request,
    tool,
    until,
    waiting_ask,
)
from kits.sandbox_levels import LEVELS, hold_level

pytestmark = pytest.mark.anyio

SHELL = """#!/bin/sh
read -r request
. "$(dirname "$0")/../lib/say.sh"
helper="$(command -v helper)"
printf '{"ok": true, "at": "%s", "said": "%s", "helper": "%s"}\\n' "$0" "$said" "$helper"
"""
PYTHON = f"""#!{sys.executable} -I
import json, os, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from library import said
sys.stdin.readline()
print(json.dumps({{"ok": True, "at": __file__, "said": said, "from": sys.modules["library"].__file__}}))
"""


class Package:
    """A package of the root, with one tool."""

    def __init__(self, root: Root, name: str = "pack", **entry: Any) -> None:
        self.root = root
        self.folder = root.folder / "tools" / "packages" / name
        self.write("lib/say.sh", "said=good\n")
        self.program = self.write("bin/run", SHELL, 0o755)
        self.write("bin/helper", "#!/bin/sh\n", 0o755)
        root.sidecars[name] = {
            "command": f"./tools/packages/{name}/bin/run",
            "tools": [tool(f"{name}.do")],
            **entry,
        }
        root.write()

    def write(self, path: str, text: str, mode: int = 0o644) -> Path:
        file: Path = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file


@pytest.fixture
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Level:
    """The level of the sandbox; the strongest one where a test names none."""
    wanted: Level = getattr(request, "param", Level.ENFORCED)
    hold_level(wanted, monkeypatch)
    return wanted


at_every_level = pytest.mark.parametrize("level", LEVELS, indirect=True)


@pytest.fixture
def root(tmp_path: Path, level: Level) -> Root:
    made = Root(tmp_path)
    made.settings(sandbox={"minimum": {"pack.do": "none", "main.do": "none"}})
    return made


def seen_in(root: Root, level: Level, name: str = "pack") -> Path:
    """The folder in which a package sees its own files. In namespaces of its own the copy is mounted at the
    package's own path."""
    if level is Level.ENFORCED:
        return root.folder / "tools" / "packages" / name
    return root.places.data_dir / "store"


def output(result: ToolResult) -> dict[str, Any]:
    assert result.status is Status.SUCCESS, result.error
    assert isinstance(result.output, dict)
    return result.output


async def sealed_call(kernel: Kernel, name: str) -> tuple[Ask, ToolResult]:
    asks = []

    async def note(ask: Ask) -> None:
        asks.append(ask)
        await approve(kernel, ask)

    return (result := await answered_call(kernel, note, name)) and (asks[0], result)


@at_every_level
async def test_a_package_runs_from_its_copy_with_its_siblings(root: Root, level: Level) -> None:
    Package(root)
    async with kernel_of(root) as kernel:
        ask, result = await sealed_call(kernel, "pack.do")
        again = output(await approved_call(kernel, "pack.do"))
    said = output(result)
    store = root.places.data_dir / "store"
    assert result.sandbox is level
    assert Path(said["at"]).is_relative_to(seen_in(root, level))
    assert said["said"] == "good"
    # The search path leads into the copy, too.
    assert Path(said["helper"]).is_relative_to(seen_in(root, level))
    assert again == said
    seal = ask.request.seal
    assert (seal.kind, seal.copy, seal.leasable, seal.note) == (SealKind.PACKAGE, True, True, "")
    assert seal.program == str(root.folder / "tools/packages/pack/bin/run")
    assert len([path for path in store.iterdir() if path.name != ".lock"]) == 1


@at_every_level
async def test_python_finds_its_modules_and_leaves_no_cache_in_the_copy(root: Root, level: Level) -> None:
    package = Package(root)
    package.write("bin/library.py", "said = 'good'\n")
    package.write("bin/run", PYTHON, 0o755)
    async with kernel_of(root) as kernel:
        first = output(await approved_call(kernel, "pack.do"))
        [copy] = (root.places.data_dir / "store").rglob("library.py")
        before = sorted(copy.parents[1].rglob("*"))
        second = output(await approved_call(kernel, "pack.do"))
    assert first["said"] == "good"
    assert first == second
    assert Path(first["from"]).parent == Path(first["at"]).parent
    assert Path(first["from"]).is_relative_to(seen_in(root, level))
    # The same copy: nothing was written into it.
    assert sorted(copy.parents[1].rglob("*")) == before
    assert (copy.parent / "__pycache__").is_file()


async def test_an_unsealed_cache_beside_the_source_is_never_run(root: Root) -> None:
    package = Package(root)
    package.write("bin/library.py", "said = 'good'\n")
    package.write("bin/run", PYTHON, 0o755)
    source = package.folder / "bin" / "library.py"
    evil = package.root.base / "evil.py"
    evil.write_text("said = 'evil'\n")
    os.utime(evil, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns))
    cached = Path(importlib.util.cache_from_source(str(source)))
    py_compile.compile(
        str(evil), cfile=str(cached), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP
    )
    async with kernel_of(root) as kernel:
        assert output(await approved_call(kernel, "pack.do"))["said"] == "good"


@at_every_level
async def test_an_interpreter_inside_the_package_is_run_from_the_copy(root: Root, level: Level) -> None:
    package = Package(root)
    interpreter = package.write(
        "runtime/interpret", '#!/bin/sh\nprintf \'{"ok": true, "by": "%s"}\\n\' "$0"\n', 0o755
    )
    package.write("bin/run", f"#!{interpreter}\nanything\n", 0o755)
    async with kernel_of(root) as kernel:
        said = output(await approved_call(kernel, "pack.do"))
    assert Path(said["by"]).is_relative_to(seen_in(root, level))


async def test_a_changed_member_is_asked_again(root: Root) -> None:
    package = Package(root)
    async with kernel_of(root) as kernel:

        async def change_then_approve(ask: Ask) -> None:
            package.write("lib/say.sh", "said=other\n")
            await approve(kernel, ask)
            again = await waiting_ask(kernel)
            assert again.request.id != ask.request.id
            assert again.request.seal.digest != ask.request.seal.digest
            assert again.request.difference
            await approve(kernel, again)

        result = await answered_call(kernel, change_then_approve, "pack.do")
    assert output(result)["said"] == "other"
    assert "APPROVAL_STALE" in [line["event"] for line in root.audit()]


async def test_a_package_with_a_link_that_leads_out_is_refused_and_says_why(root: Root) -> None:
    package = Package(root)
    (package.folder / "lib" / "outside").symlink_to("/etc")
    async with kernel_of(root) as kernel:
        result = await kernel.call(request(kernel, "pack.do"))
    assert result.error is not None
    assert (result.status, result.error.code) == (Status.FAILED, Code.SPAWN)
    assert "lib/outside is a link that leads out" in result.error.message
    assert "in-place" in result.error.hint


async def test_in_place_runs_where_it_is_and_is_partial(root: Root) -> None:
    package = Package(root, seal="in-place")
    (package.folder / "lib" / "outside").symlink_to("/etc")
    async with kernel_of(root) as kernel:
        ask, result = await sealed_call(kernel, "pack.do")
    assert output(result)["at"] == str(package.program)
    seal = ask.request.seal
    assert (seal.kind, seal.copy, seal.complete, seal.copies) == (SealKind.FOLDER, False, False, ())
    assert "runs in place, where it may load other files" in seal.partial


@at_every_level
async def test_a_delegate_is_sealed_by_copy_and_handed_over_as_its_copy(root: Root, level: Level) -> None:
    Package(root, "helper")
    root.sidecar(
        "main",
        '#!/bin/sh\nread -r request\nprintf \'{"ok": true, "request": %s}\\n\' "$request"\n',
        delegates={"hand": {"command": "./tools/packages/helper/bin/run", "args": ["fast"]}},
    )
    async with kernel_of(root) as kernel:
        ask, result = await sealed_call(kernel, "main.do")
    [delegate] = ask.request.delegates
    assert (delegate.seal.kind, delegate.seal.copy) == (SealKind.PACKAGE, True)
    assert delegate.argv == (str(root.folder / "tools/packages/helper/bin/run"), "fast")
    argv = output(result)["request"]["delegates"]["hand"]["argv"]
    # Where the copy has another path, its interpreter is named: the first line of the copy is not read anew.
    *interpreter, program, word = argv
    assert interpreter == ([] if level is Level.ENFORCED else ["/bin/sh"])
    assert Path(program).is_relative_to(seen_in(root, level, "helper"))
    assert word == "fast"


@at_every_level
async def test_a_probe_runs_the_copy_as_a_call_does(root: Root, level: Level) -> None:
    (root.base / "marks").mkdir()
    marks = root.base / "marks" / "probed"
    package = Package(root, probe={"mode": "request"}, permissions={"fs": {"write": [str(marks.parent)]}})
    package.write(
        "bin/run", f'#!/bin/sh\nread -r request\necho "$0" >> {marks}\necho \'{{"ok": true}}\'\n', 0o755
    )
    async with kernel_of(root) as kernel:
        await until(marks.exists)
        output(await approved_call(kernel, "pack.do"))
    assert {Path(line).is_relative_to(seen_in(root, level)) for line in marks.read_text().split()} == {True}


async def test_a_program_that_only_lies_in_the_packages_folder_is_no_package(root: Root) -> None:
    Package(root)
    lone = root.folder / "tools" / "packages" / "lone"
    lone.write_text("#!/bin/sh\necho '{\"ok\": true}'\n")
    lone.chmod(0o755)
    root.sidecars["pack"]["command"] = "./tools/packages/lone"
    root.write()
    async with kernel_of(root) as kernel:
        ask, result = await sealed_call(kernel, "pack.do")
    assert result.status is Status.SUCCESS
    assert (ask.request.seal.kind, ask.request.seal.copy) == (SealKind.FOLDER, False)


@pytest.mark.parametrize("through", ["link in the package", "linked package", "command outside"])
async def test_links_decide_by_where_they_lead(through: str, root: Root) -> None:
    package = Package(root)
    outside = root.folder / "vendor"
    package.folder.rename(outside)
    if through == "linked package":
        package.folder.symlink_to("../../vendor")
    else:
        (outside / "bin").rename(root.folder / "bin")
        package.folder.mkdir()
        (root.folder / "lib").symlink_to("vendor/lib")
        (package.folder / "bin").symlink_to("../../../bin")
    if through == "command outside":
        root.sidecars["pack"]["command"] = "./bin/run"
        root.write()
    async with kernel_of(root) as kernel:
        if through == "link in the package":
            result = await kernel.call(request(kernel, "pack.do"))
            assert result.error is not None
            assert "leads out of its package" in result.error.message
            return
        ask, result = await sealed_call(kernel, "pack.do")
    assert output(result)["said"] == "good"
    expected = SealKind.PACKAGE if through == "linked package" else SealKind.FOLDER
    assert ask.request.seal.kind is expected
