"""On Wayland nobody can look at windows: refused, unless the entry accepts that; then the card says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flycore.model.approval import Ask
from flycore.model.enums import Code, Status
from flytui.text.card import render_card
from kits.kernel import Root, answered_call, approve, kernel_of, request

pytestmark = pytest.mark.anyio

KEEP = """#!/bin/sh
read -r request
printf '%s' "$request" > "$HOME/request.json"
printf '{"ok": true, "action": "type", "typed": 1}\\n'
"""
TYPE = {"action": "type", "text": "x"}


def desk(base: Path, environ: dict[str, str], config: dict[str, Any]) -> Root:
    root = Root(base)
    root.environ |= environ
    root.sidecar("desk", KEEP, "computer.keyboard", config=config, permissions={"desktop": True})
    return root


async def test_the_card_says_that_nobody_looked(tmp_path: Path) -> None:
    root = desk(tmp_path, {"WAYLAND_DISPLAY": "wayland-7"}, {"allowUncheckedTarget": True})
    shown: list[str] = []

    async def look(ask: Ask) -> None:
        shown.extend(line.text for line in render_card(ask.request, 200) if line.label == "THERE")
        await approve(kernel, ask)

    async with kernel_of(root) as kernel:
        result = await answered_call(kernel, look, "computer.keyboard", TYPE)
    assert result.status is Status.SUCCESS, result
    assert len(shown) == 1
    assert "not checked" in shown[0]
    told = json.loads((tmp_path / "request.json").read_text())
    assert "target" not in told
    assert told["refuse"] == {"windowIds": [], "pids": []}


@pytest.mark.parametrize(
    ("environ", "config"),
    [
        ({"WAYLAND_DISPLAY": "wayland-7"}, {}),
        ({"WAYLAND_DISPLAY": "wayland-7"}, {"allowUncheckedTarget": "true"}),
        ({"WAYLAND_DISPLAY": "wayland-7"}, {"allowUncheckedTarget": True, "session": "x11"}),
        ({}, {"allowUncheckedTarget": True}),
    ],
)
async def test_everywhere_else_nobody_is_asked_and_nothing_runs(
    tmp_path: Path, environ: dict[str, str], config: dict[str, Any]
) -> None:
    root = desk(tmp_path, environ, config)
    async with kernel_of(root) as kernel:
        result = await kernel.call(request(kernel, "computer.keyboard", TYPE))
        assert kernel.asks() == ()
    assert (result.status, result.error.code if result.error else "") == (Status.FAILED, Code.FAILED)
    assert not (tmp_path / "request.json").exists()
