"""`flytui init`: the bundled sidecars are really asked, and a registry is written or added to."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from flycore.registry.starter import registry_of, starter_pieces
from kits.command_line import Desk

WHOLE = Path(__file__).parents[3]


def empty_desk(base: Path) -> Desk:
    made = Desk(base / "root", base / "home")
    made.root.mkdir()
    (made.home / "run").mkdir(parents=True, mode=0o700)
    return made


def test_a_first_registry_shows_what_works_and_waits_for_trust(tmp_path: Path) -> None:
    desk = empty_desk(tmp_path)
    text = registry_of(starter_pieces(desk.root, desk.environ))
    printed = desk.run("init", "--print")
    assert (printed.returncode, printed.stdout) == (0, text)
    assert list(desk.root.iterdir()) == []
    done = desk.document("init")
    assert done["outcome"] == "created"
    file = desk.root / done["file"]
    assert file.read_text() == text
    assert (desk.root / "tools" / "schemas" / "registry.schema.json").is_file()
    assert desk.run("lint").returncode == 0
    tools = {tool["name"]: tool for sidecar in done["sidecars"] for tool in sidecar["tools"]}
    assert tools["file.hash"]["state"] == "available"
    assert tools["web.search"]["state"] == "unavailable"
    assert "provider" in tools["web.search"]["reason"]
    assert "providers" in tools["web.search"]["remedy"]
    waiting = {item["sidecar"] for item in desk.document("trust", "--print-digest")["waiting"]}
    assert waiting == set(done["written"]) - {"computer.native"}


def test_a_missing_program_comes_with_the_command_that_installs_it(tmp_path: Path) -> None:
    desk = empty_desk(tmp_path)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("apt-get", "sudo"):
        (programs / name).write_text("#!/bin/sh\nexit 1\n")
        (programs / name).chmod(0o755)
    for name in ("bwrap", "sh"):
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    # A port at which nothing listens, and a PATH without a browser.
    closed = {"PATH": str(programs), "FLYFLOR_BROWSER_CDP_URL": "http://127.0.0.1:9"}
    command = [str(Path(sys.executable).parent / "flytui"), "--root", str(desk.root), "init", "browser.cdp"]
    shown = subprocess.run(
        command,
        env={**desk.environ, **closed},
        cwd=desk.root,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "○ unavailable  browser.open" in shown.stdout
    assert "apt-get install chromium" in shown.stdout


def test_some_are_written_alone_and_others_added_after_one_yes(tmp_path: Path) -> None:
    desk = empty_desk(tmp_path)
    (desk.root / "inner").mkdir()
    unknown = desk.run("init", "web.serch")
    assert (unknown.returncode, "did you mean web.search?" in unknown.stderr) == (2, True)
    assert desk.document("init", "web.search", "--target", str(desk.root / "inner"))["outcome"] == "created"
    assert not (desk.root / "tools").exists()
    assert desk.document("init", "browser.cdp")["written"] == ["browser.cdp"]
    file = desk.root / "tools" / "external.tools.jsonc"
    mine = file.read_text().replace("  }\n}\n", "  }\n  // my last word\n}\n")
    file.write_text(mine)
    shown = desk.run("init", "browser.cdp", "mock.echo")
    assert shown.returncode == 4
    assert '+    "mock.echo": {' in shown.stdout
    assert "browser.cdp (there already)" in shown.stdout
    assert file.read_text() == mine
    assert desk.document("init", "browser.cdp")["outcome"] == "unchanged"
    added = desk.document("init", "browser.cdp", "mock.echo", "--apply")
    assert (added["outcome"], added["written"]) == ("added", ["mock.echo"])
    assert file.read_text().endswith("  }\n  // my last word\n}\n")
    file.write_text("{")
    broken = desk.run("init")
    assert (broken.returncode, file.read_text()) == (5, "{")


def test_on_a_terminal_the_difference_is_shown_and_a_yes_writes_it(tmp_path: Path) -> None:
    desk = empty_desk(tmp_path)
    file = desk.root / "tools" / "external.tools.jsonc"
    file.parent.mkdir()
    mine = '{\n  "schemaVersion": 2, // mine\n  "sidecars": {}\n}\n'
    file.write_text(mine)
    for answer, code in (("n\n", 4), ("yes\n", 0)):
        with desk.terminal("init", "mock.echo") as terminal:
            terminal.until("Add 1 entry? y/N")
            assert '+    "mock.echo": {' in terminal.shown
            assert file.read_text() == mine
            terminal.press(answer)
            assert terminal.end() == code
    assert file.read_text().startswith('{\n  "schemaVersion": 2, // mine\n  "sidecars": {\n')
    assert "// For trying things out" in file.read_text()


def test_the_script_in_tools_calls_the_command(tmp_path: Path) -> None:
    desk = empty_desk(tmp_path)
    environ = {**desk.environ, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    done = subprocess.run(
        ["sh", str(WHOLE / "tools" / "init.sh"), "--target", str(desk.root), "mock.echo"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "mock.echo" in done.stdout
    assert '"mock.echo"' in (desk.root / "tools" / "external.tools.jsonc").read_text()
