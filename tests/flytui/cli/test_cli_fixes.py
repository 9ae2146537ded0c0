"""A fix run for real: the console lends its terminal, the program ends, the console is back."""

from __future__ import annotations

import json
import sys
from ast import literal_eval
from dataclasses import dataclass
from pathlib import Path

import pytest

from flytui.cli.terminal_programs import find_editor, find_viewer, view_file
from kits import command_line


@dataclass(frozen=True)
class WithEditor(command_line.Desk):
    """A desk whose person has an editor."""

    @property
    def environ(self) -> dict[str, str]:
        return {**super().environ, "EDITOR": str(self.home / "ed"), "MARK": str(self.home / "mark")}


def test_the_console_lends_its_terminal_to_the_editor_and_comes_back(tmp_path: Path) -> None:
    root, home = tmp_path / "root", tmp_path / "home"
    root.mkdir()
    (home / "run").mkdir(parents=True, mode=0o700)
    editor = home / "ed"
    editor.write_text('#!/bin/sh\nprintf "EDITING %s" "$1"\nread answer\nprintf %s "$1" > "$MARK"\n')
    editor.chmod(0o755)
    desk = WithEditor(root, home)
    registry = {"schemaVersion": 2, "sidecars": {"own": {"command": "./nowhere", "tools": ["file.hash"]}}}
    desk.write(registry)
    desk.trust()
    with desk.terminal() as shown:
        shown.until("./nowhere")
        shown.press("F")
        shown.decide("a", lambda: "EDITING" in shown.shown)
        shown.press("done\r")
        shown.until("ended with exit status 0")
        shown.press("q")
        assert shown.end() == 0
    assert (home / "mark").read_text() == str(root / "tools" / "external.tools.jsonc")
    assert json.loads((root / "tools" / "external.tools.jsonc").read_text()) == registry


def test_the_persons_editor_is_found() -> None:
    assert find_editor({"VISUAL": "code -w", "EDITOR": "vi"}) == ("code", "-w")
    assert find_editor({"VISUAL": "", "EDITOR": "'my ed' -x"}) == ("my ed", "-x")
    assert find_editor({"VISUAL": "'open", "EDITOR": "vi"}) == ("vi",)
    assert find_editor({"PATH": "/nowhere"}) == ()


def test_a_viewer_is_found_only_on_a_desktop(tmp_path: Path) -> None:
    program = tmp_path / "xdg-open"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find_viewer({"PATH": str(tmp_path), "DISPLAY": ":9"}) == str(program)
    assert find_viewer({"PATH": str(tmp_path), "WAYLAND_DISPLAY": "wayland-0"}) == str(program)
    assert find_viewer({"PATH": str(tmp_path)}) == ""
    assert find_viewer({"PATH": "/nowhere", "DISPLAY": ":9"}) == ""


@pytest.mark.anyio
async def test_a_viewer_gets_the_path_as_it_is_and_nothing_of_the_terminal(tmp_path: Path) -> None:
    program, told = tmp_path / "xdg-open", tmp_path / "told"
    program.write_text(
        f"#!{sys.executable}\n"
        "import os, sys\n"
        "ends = [os.readlink(f'/proc/self/fd/{number}') for number in range(3)]\n"
        f"open({str(told)!r}, 'w').write(repr((sys.argv[1:], ends, os.getpid() == os.getsid(0))))\n"
        "sys.exit(7)\n"
    )
    program.chmod(0o755)
    path = "/srv/a b; $(touch c) `d` \n.png"
    assert await view_file(str(program), path) == 7
    assert literal_eval(told.read_text()) == ([path], ["/dev/null"] * 3, True)
    with pytest.raises(OSError, match="No such file"):
        await view_file(str(tmp_path / "none"), path)
