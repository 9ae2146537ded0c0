"""The line for tmux's status bar: short, and nothing in it obeyed but our own colours."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from flycore.model.enums import Risk
from flytui.cli.commands.status import tmux_line
from kits.command_line import Desk
from kits.programs import needs
from kits.values import status_of


def test_the_line_says_what_needs_a_person() -> None:
    assert tmux_line(status_of()) == "shop: ok"
    medium = tmux_line(status_of(waiting=2, waiting_risk=Risk.MEDIUM))
    assert medium == "shop: #[fg=yellow]2 waiting, medium#[default]"
    high = tmux_line(status_of(waiting=1, waiting_risk=Risk.HIGH))
    assert high == "shop: #[fg=red]1 waiting, high#[default]"
    assert tmux_line(status_of(panic=True)) == "shop: #[fg=red]stopped#[default]"
    assert tmux_line(status_of(policy_ok=False)) == "shop: #[fg=red]policy failed#[default]"
    assert tmux_line(status_of(waiting_rules=1)) == "shop: #[fg=yellow]policy waits#[default]"


NAMES = ["#(touch owned)", "#{pid}", "#[fg=blue]x", "a\x1b]0;t\x07b", "caf\u00e9\u202e", "a#b##c"]


@pytest.mark.e2e
@pytest.mark.parametrize("name", NAMES)
def test_tmux_shows_a_folder_by_its_name_and_obeys_none(tmp_path: Path, name: str) -> None:
    needs("tmux")
    line = tmux_line(status_of(app_root=f"/srv/{name}"))
    assert line.isascii()
    assert line.isprintable()
    command = ["tmux", "-f", "/dev/null", "-S", str(tmp_path / "tmux.sock")]
    subprocess.run([*command, "new-session", "-d", "-x", "80", "-y", "5", "sleep 60"], check=True, timeout=60)
    try:
        expanded = [*command, "display-message", "-p", line]
        shown = subprocess.run(expanded, capture_output=True, text=True, check=True, timeout=60).stdout
    finally:
        subprocess.run([*command, "kill-server"], check=False, timeout=60)
    plain = "".join(letter if " " <= letter <= "~" else "?" for letter in name)
    # `##[` is what the bar draws as `#[`
    assert shown.replace("##[", "#[") == f"{plain}: ok\n"


def test_without_a_kernel_the_line_is_empty_and_all_is_well(desk: Desk) -> None:
    done = desk.run("status", "--format", "tmux")
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


def test_two_formats_are_refused(desk: Desk) -> None:
    assert desk.run("status", "--format", "tmux", "--json").returncode == 2
