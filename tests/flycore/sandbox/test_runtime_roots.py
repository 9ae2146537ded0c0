"""Which folders a program needs, for the installations that people have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from flycore.model.enums import Anchor, PathState
from flycore.model.program import ResolvedProgram
from flycore.sandbox.runtime_roots import RuntimeUnknown, python_roots, runtime_roots


def program(path: Path | str, *argv: str, interpreter: str = "") -> ResolvedProgram:
    """A resolved program as the registry makes it."""
    return ResolvedProgram(
        state=PathState.RESOLVED,
        mode="relative",
        base=Anchor.APP,
        declared=str(path),
        path=os.path.realpath(path),
        argv=(str(path), *argv),
        interpreter=os.path.realpath(interpreter) if interpreter else "",
        interpreter_argv=(interpreter,) if interpreter else (),
    )


def touch(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def covered(path: Path | str, roots: tuple[str, ...]) -> bool:
    """Whether the path lies at or below one of the roots."""
    return any(str(path) == root or str(path).startswith(root + "/") for root in roots)


def test_a_system_program_needs_nothing_more() -> None:
    assert runtime_roots(program("/usr/bin/env")) == ()


def test_a_script_needs_itself_and_not_its_neighbours(tmp_path: Path) -> None:
    script = touch(tmp_path / "tools" / "x.sh", "#!/bin/sh\n")
    roots = runtime_roots(program(script, interpreter="/bin/sh"))
    assert roots == (str(script),)


def test_a_program_in_the_person_s_own_bin_folder_needs_no_more_of_it_than_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    local = tmp_path / ".local"
    (local / "share" / "keyrings").mkdir(parents=True)
    tool, python = touch(local / "bin" / "tool"), touch(local / "bin" / "python3")
    for file in (tool, python):
        assert runtime_roots(program(file)) == (str(file),)
    (local / "lib").mkdir()
    for file in (tool, python):
        assert set(runtime_roots(program(file))) == {str(file), str(local / "lib")}


def test_a_virtual_environment_needs_its_base_and_what_is_editable_in_it(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    packages = next((tmp_path / "env" / "lib").glob("python*/site-packages"))
    source = tmp_path / "my sources"
    source.mkdir()
    info = packages / "mine-1.dist-info"
    info.mkdir()
    told = {"url": source.as_uri(), "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(told))
    for name, text in (("other-1", '{"url": "https://example.org/x"}'), ("odd-1", "[1]"), ("bad-1", "{")):
        (packages / f"{name}.dist-info").mkdir()
        (packages / f"{name}.dist-info" / "direct_url.json").write_text(text)
    roots = python_roots(str(tmp_path / "env" / "bin" / "python3"))
    for needed in (tmp_path / "env", source):
        assert covered(needed, roots)
    assert covered(sys.base_prefix, roots) or sys.base_prefix == "/usr"
    assert not covered(tmp_path / "elsewhere", roots)
    # The interpreter really finds everything it imports below the roots and the system's folders.
    asked = "import json, ssl, sqlite3, sys; print(*[p for p in sys.path if p], sep='\\n')"
    listed = subprocess.run(
        [str(tmp_path / "env" / "bin" / "python3"), "-I", "-c", asked],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    for path in listed.stdout.split():
        assert covered(path, (*roots, "/usr")) or not os.path.exists(path), path


def test_an_installation_with_a_prefix_of_its_own(tmp_path: Path) -> None:
    node = touch(tmp_path / "node-v22" / "bin" / "node")
    (tmp_path / "node-v22" / "lib").mkdir()
    script = touch(tmp_path / "app" / "node_modules" / "server" / "dist" / "index.js")
    touch(tmp_path / "app" / "node_modules" / "server" / "package.json", "{}")
    roots = runtime_roots(program(node, str(script)))
    assert set(roots) == {str(tmp_path / "app" / "node_modules"), str(tmp_path / "node-v22")}


def test_a_project_of_javascript_is_its_package(tmp_path: Path) -> None:
    bun = touch(tmp_path / "bun" / "bun")
    script = touch(tmp_path / "server" / "src" / "index.ts")
    touch(tmp_path / "server" / "package.json", "{}")
    assert set(runtime_roots(program(bun, str(script)))) == {str(bun), str(tmp_path / "server")}


def test_a_shim_needs_the_tree_that_it_looks_up(tmp_path: Path) -> None:
    shim = touch(tmp_path / ".pyenv" / "shims" / "mytool", "#!/bin/sh\n")
    assert runtime_roots(program(shim)) == (str(tmp_path / ".pyenv"),)


def test_a_program_linked_from_elsewhere_needs_both_places(tmp_path: Path) -> None:
    real = touch(tmp_path / "pipx" / "venvs" / "tool" / "bin" / "tool", "#!/bin/sh\n")
    touch(tmp_path / "pipx" / "venvs" / "tool" / "pyvenv.cfg", "home = /usr/bin\n")
    link = tmp_path / "local" / "bin" / "tool"
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    assert runtime_roots(program(link)) == (str(link), str(tmp_path / "pipx" / "venvs" / "tool"))


def test_what_would_open_half_the_machine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "lib").mkdir()
    with pytest.raises(RuntimeUnknown) as refused:
        runtime_roots(program(touch(tmp_path / "bin" / "tool")))
    assert refused.value.path == str(tmp_path)


@pytest.mark.parametrize("settled_ns", [-1, 60_000_000_000], ids=["kept", "not kept"])
def test_what_is_installed_later_is_found_and_what_is_removed_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settled_ns: int
) -> None:
    monkeypatch.setattr("flycore.sandbox.runtime_roots._INSTALLED_NS", settled_ns)
    python = touch(tmp_path / "env" / "bin" / "python3")
    touch(tmp_path / "env" / "pyvenv.cfg", "home = /usr/bin\n")
    packages = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    one, two = tmp_path / "one", tmp_path / "two"

    def install(name: str, source: Path) -> Path:
        source.mkdir(exist_ok=True)
        told = {"url": source.as_uri(), "dir_info": {"editable": True}}
        return touch(packages / f"{name}-1.dist-info" / "direct_url.json", json.dumps(told))

    def found() -> set[str]:
        roots = python_roots(str(python))
        assert roots == python_roots(str(python))
        return set(roots) - {str(tmp_path / "env")}

    assert found() == set()
    file = install("a", one)
    assert found() == {str(one)}
    install("b", two)
    assert found() == {str(one), str(two)}
    # The folder of the packages does not change.
    file.write_text(json.dumps({"url": two.as_uri(), "dir_info": {"editable": True}}))
    assert found() == {str(two)}
    file.unlink()
    (packages / "b-1.dist-info" / "direct_url.json").unlink()
    assert found() == set()
