"""The program that calls a function finds modules of a folder that may not be listed as Python does."""

from __future__ import annotations

import importlib.util
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    ExtensionFileLoader,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
)
from pathlib import Path
from typing import Any

import pytest

from flycore.registry.resolve_python import PROGRAM


@pytest.fixture
def program() -> Any:
    spec = importlib.util.spec_from_file_location("call_function", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def facts(spec: ModuleSpec | None) -> tuple[Any, ...] | None:
    if spec is None:
        return None
    folders = spec.submodule_search_locations
    # A library that checks types at run time puts a loader of its own, made from these, in their place.
    kinds = [kind for kind in (SourceFileLoader, ExtensionFileLoader) if isinstance(spec.loader, kind)]
    return spec.name, spec.origin, kinds, None if folders is None else list(folders)


TREE = (
    "alone.py",
    "package/__init__.py",
    "package/inner.py",
    "both.py",
    "both/__init__.py",
    "folder_and_file/inner.py",
    "folder_and_file.py",
    f"compiled{EXTENSION_SUFFIXES[0]}",
    "text.txt",
)
NAMES = ("alone", "package", "both", "folder_and_file", "compiled", "text", "missing", "json")


def test_each_kind_of_module_is_found_where_python_finds_it(tmp_path: Path, program: Any) -> None:
    for file in TREE:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    finder = program.UnlistedFolder(str(tmp_path))
    found = {name: facts(finder.find_spec(name)) for name in NAMES}
    assert found == {name: facts(PathFinder.find_spec(name, [str(tmp_path)])) for name in NAMES}
    assert found["alone"] is not None
    assert finder.find_spec("package.inner", [str(tmp_path / "package")]) is None


def test_a_folder_without_init_hides_no_module_of_that_name(tmp_path: Path, program: Any) -> None:
    (tmp_path / "logging").mkdir()
    finder = program.UnlistedFolder(str(tmp_path))
    assert finder.find_spec("logging") is None
    (tmp_path / "logging" / "__init__.py").touch()
    assert finder.find_spec("logging").origin == str(tmp_path / "logging" / "__init__.py")


def test_a_folder_without_init_is_a_package(tmp_path: Path, program: Any) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "scan.py").touch()
    spec = program.UnlistedFolder(str(tmp_path)).find_spec("scripts")
    assert list(spec.submodule_search_locations) == [str(tmp_path / "scripts")]
    inner = PathFinder.find_spec("scripts.scan", spec.submodule_search_locations)
    assert inner is not None
    assert inner.origin == str(tmp_path / "scripts" / "scan.py")
