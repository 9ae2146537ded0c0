"""Which command lines open the console without the command line's own library, and what the supervisor
imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flytui.supervisor.console_arguments import MAX_ROOTS, console_arguments

LOADED = """
import json, sys
before = set(sys.modules)
import flytui.cli.main, flytui.supervisor.programs
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_only_words_that_are_right_in_every_respect_are_taken(tmp_path: Path) -> None:
    folder, file = str(tmp_path), tmp_path / "file"
    file.touch()
    assert console_arguments([]) == ((), None)
    assert console_arguments(["--plain"]) == ((), None)
    assert console_arguments(["--root", folder]) == ((folder,), None)
    assert console_arguments([f"--root={folder}", "--workspace", folder]) == ((folder,), folder)
    assert console_arguments(["--root", "/nowhere", "--root", folder]) is None
    for words in (["--root"], ["--root", str(file)], ["--root="], ["--json"], ["-h"], ["status"], ["--"]):
        assert console_arguments(words) is None


def test_several_roots_are_opened_each_folder_once(tmp_path: Path) -> None:
    first, second, link = tmp_path / "first", tmp_path / "second", tmp_path / "link"
    for folder in (first, second):
        folder.mkdir()
    link.symlink_to(first)
    words = ["--root", str(first), f"--root={second}", "--root", str(link)]
    assert console_arguments(words) == ((str(first), str(second)), None)
    assert console_arguments([*words, "--workspace", str(first)]) is None
    many = [tmp_path / f"root{n}" for n in range(MAX_ROOTS + 1)]
    for folder in many:
        folder.mkdir()
    assert console_arguments([f"--root={folder}" for folder in many]) is None
    assert console_arguments([f"--root={folder}" for folder in many[1:]]) is not None


@pytest.mark.parametrize("word", ["--plain=yes", "--ro", "--rootx", ""])
def test_what_looks_like_an_option_is_the_command_lines(word: str) -> None:
    assert console_arguments([word]) is None


def test_the_supervisor_imports_the_standard_library_only() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = json.loads(done.stdout)
    packages = {name.partition(".")[0] for name in loaded}
    assert packages - set(sys.stdlib_module_names) == {"flytui", "flysafe", "flycore"}
    assert [name for name in loaded if name.startswith("flycore")] == ["flycore"]  # its version alone
    assert not packages & {"asyncio", "ctypes", "subprocess", "logging"}
    own = {name for name in loaded if name.startswith("flysafe.")}
    assert own == {"flysafe.control_groups", "flysafe.runtime_folder", "flysafe.unix_sockets"}
