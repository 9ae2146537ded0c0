"""The interpreter of a Python function: that of its environment, else the first on PATH that is no script."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from flycore.model.enums import PathState, ReasonCode
from flycore.model.program import ResolvedProgram
from flycore.model.tool_exec import PythonExec
from flycore.registry.manifest import parse_manifest
from flycore.registry.resolve_python import ISOLATED, PROGRAM, resolve_function

TEXT = "name: f\ndescription: F.\nkind: python\nexec: {python: {module: m.n, function: run, venv: VENV}}\n"


def resolved(folder: Path, venv: str, path: str = "", own: Path = Path("/nowhere")) -> ResolvedProgram:
    text = TEXT.replace("VENV", venv) if venv else TEXT.replace(", venv: VENV", "")
    entry = parse_manifest(text, "tool.yml", folder="f")
    assert isinstance(entry.exec, PythonExec)
    return resolve_function(entry, entry.exec, folder, path, own)


def environment(folder: Path, target: str = sys.executable) -> Path:
    programs = folder / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(os.path.realpath(target))
    return programs / "python"


def test_an_environment_s_interpreter_may_be_a_link_whose_file_is_known(tmp_path: Path) -> None:
    called = environment(tmp_path / ".venv")
    found = resolved(tmp_path, ".venv")
    assert found.state is PathState.RESOLVED
    assert found.argv == (str(called), ISOLATED, os.path.realpath(PROGRAM), "m.n", "run")
    assert found.interpreter == os.path.realpath(sys.executable)


def test_an_environment_outside_of_the_project_is_refused(tmp_path: Path) -> None:
    environment(tmp_path / "elsewhere")
    project = tmp_path / "project"
    project.mkdir()
    (project / ".venv").symlink_to(tmp_path / "elsewhere")
    found = resolved(project, ".venv")
    assert found.state is PathState.OUTSIDE_ROOT_DENIED


def test_a_missing_environment_says_how_to_make_one(tmp_path: Path) -> None:
    found = resolved(tmp_path, ".venv")
    assert (found.state, found.reason) == (PathState.UNRESOLVED, ReasonCode.INTERPRETER_MISSING)
    assert "python3 -m venv .venv" in found.remedy


def test_a_script_in_the_place_of_an_interpreter_is_passed_over(tmp_path: Path) -> None:
    shims, real = tmp_path / "shims", tmp_path / "real"
    for folder in (shims, real):
        folder.mkdir()
    (shims / "python3").write_text("#!/bin/sh\nexec anything\n")
    (shims / "python3").chmod(0o755)
    (real / "python3").symlink_to(os.path.realpath(sys.executable))
    found = resolved(tmp_path, "", f"relative:{shims}:{real}")
    assert found.argv[0] == str(real / "python3")
    assert resolved(tmp_path, "", str(shims), own=real).argv[0] == str(real / "python3")
    assert resolved(tmp_path, "", str(shims)).state is PathState.UNRESOLVED
