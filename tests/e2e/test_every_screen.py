"""A person goes through the whole console by keys, in a real terminal, and reads each screen back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.scenes import described
from kits.terminals import Root, Tmux, console, make_root, needs

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
SCHEMA = {
    "type": "object",
    "required": ["message"],
    "properties": {"message": {"type": "string", "minLength": 2}},
}
SIDECARS = {
    "mock.echo": {
        "command": "flytui-sidecar",
        "args": ["mock.echo"],
        "tools": [described("mock.echo", inputSchema=SCHEMA)],
    },
    "off.one": {
        "command": "flytui-sidecar",
        "args": ["media.local"],
        "enabled": False,
        "disabledReason": "not today",
        "tools": ["audio.speak"],
    },
    "gone.one": {"command": "./tools/gone", "tools": ["vision.ocr"]},
}
Step = tuple[tuple[str, ...], str]
"""Keys pressed one after another, and what is on screen then; where nothing is named, what was is gone."""
SCREENS: tuple[Step, ...] = (
    (("2",), r"Nothing waits for you"),
    (("3",), r"No calls yet"),
    (("4",), r"There is no grant"),
    (("5",), r"TRUST_DECIDED"),
    (("6",), r"No package is installed or staged"),
    (("7",), r"\d+ checks: "),
    (("1",), r"RISK WHY"),
)
WALK: tuple[Step, ...] = (
    (("/",), r"Enter keep the filter"),
    (("state:dis", "Enter"), r"1 of \d+ match"),
    (("Escape",), r"available +mock\.echo"),
    ((":",), r"Enter go there"),
    (("mock.ech", "Enter"), r"(?m)^▌ +● available +mock\.echo"),
    (("w",), r"you would be asked"),
    (("Escape",), r"Enter details"),
    (("Enter",), r"effective +● available"),
    (("y",), r"sent as JSON to the terminal's clipboard"),
    (("Escape",), r"Enter details"),
    (("D",), r"nothing changed"),
    (("Escape",), r"Enter details"),
    (("g",), r"── mock\.echo"),
    (("g",), r"(?m)^▌ +● available +mock\.echo"),
    (("X",), r"Switch mock\.echo off"),
    (("Escape",), ""),
    ((":",), r"Enter go there"),
    (("audio.sp", "Enter"), r"(?m)^▌ +⊘ disabled +audio\.speak"),
    (("F",), r"off\.one is switched off"),
    (("Escape",), r"Enter details"),
    (("E",), r"Switch off\.one on"),
    (("Escape",), ""),
    (("?",), r"filter: words"),
    (("Escape",), r"Enter details"),
    (("C-p",), r"Search for commands"),
    (("jump",), r"some letters of its name, then Enter"),
    (("Escape",), ""),
)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Root]:
    needs("tmux")
    root = make_root(tmp_path, json.dumps({"schemaVersion": 2, "sidecars": SIDECARS}))
    root.trust()
    yield root
    root.end()


APPROVE = ("a",)
"""The key is pressed again where the console dropped it, because it stood still."""


def walk(tmux: Tmux, steps: tuple[Step, ...]) -> None:
    """Each step, read back before the next."""
    before = ""
    for keys, found in steps:
        if keys == APPROVE:
            tmux.decide(*keys)
        else:
            tmux.keys(*keys)
        if found:
            tmux.sees(found)
        else:
            tmux.lacks(before)
        before = found


def test_every_screen_is_reached_by_keys_and_says_what_it_is(root: Root) -> None:
    with console(root, 120, 40) as tmux:
        tmux.sees(r"available +mock\.echo")
        walk(tmux, (*SCREENS, *WALK))
        tmux.run("resize-window", "-x", "80", "-y", "24")
        tmux.lacks("▏")
        walk(tmux, (*SCREENS, *WALK))


def test_a_call_is_made_approved_and_found_again_in_a_narrow_terminal(root: Root) -> None:
    with console(root, 60, 20) as tmux:
        tmux.sees(r"available +mock\.echo")
        walk(
            tmux,
            (
                *SCREENS,
                ((":",), r"Enter go there"),
                (("mock.ech", "Enter"), r"(?m)^▌ +● available +mock\.echo"),
                (("t",), r"message \*"),
                (("h",), r"shorter than 2"),
                (("ello",), r"hello"),
                (("F5",), r"asks you"),
                (("C-o",), r"keys ready ●"),
                (APPROVE, r"✓ success"),
                (("Escape",), r"Enter details"),
                (("3",), r"✓ success +mock\.echo"),
                (("Enter",), r"\[Call\]"),
                (("t",), r"\[Tree\]"),
                (("Escape",), r"Enter details"),
                (("5",), r"TOOL_EXECUTED"),
                (("q",), r"^\s*$"),
            ),
        )
