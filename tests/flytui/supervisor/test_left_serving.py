"""A console that is left while agents are connected: its kernel may go on, and a later console attaches to
it."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
from pathlib import Path

import anyio
import pytest

from kits.command_line import LONGEST, Desk, until
from kits.console_processes import gone, processes_of
from kits.kernel import ECHO, Root, kernel_of, tool
from kits.restarts import console_of

CODE = re.compile(r"\b[A-Z2-9]{4}-[A-Z2-9]{4}\b")


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.sidecar("ask", ECHO, tool("ask.do"))

    async def trust() -> None:
        async with kernel_of(root):
            pass

    anyio.run(trust)
    return root


def test_a_kernel_that_is_left_serves_on_and_the_next_console_attaches_by_the_code_in_its_log(
    root: Root,
) -> None:
    desk = Desk(root.folder, root.base)
    log = root.places.state_dir / "serve.log"
    with console_of(desk) as first:
        first.until("policy ok")
        calling = desk.start("call", "ask.do", "{}", "--json")
        first.until("keys ready")
        kernel = processes_of(first.process.pid).kernel
        first.press("\x1b[27u")
        first.until("request waits")
        first.press("q")
        first.until("leaves the kernel serving")
        first.press("s")
        assert first.end() == 0
        assert f"the kernel goes on as flytui serve, pid {kernel}" in first.shown.replace("\r\n", "")
    try:
        served = desk.document("status")["kernel"]
        assert (served["pid"], served["role"], served["waiting"]) == (kernel, "headless", 1)
        assert not served["approver"]
        assert stat.S_IMODE(log.stat().st_mode) == 0o600
        with console_of(desk) as second:
            second.until(f"flytui serve on pid {kernel}")
            second.until_so("the code", lambda: bool(CODE.search(log.read_text())))
            with desk.terminal("status") as asked:
                asked.until("asks to decide here")
                assert asked.end() == 0
            [code] = CODE.findall(log.read_text())
            assert code in asked.shown
            assert not CODE.search(desk.run("status").stdout)
            assert calling.poll() is None
            second.press(f"{code}\r")
            second.until(f"at pid {kernel}")
            second.press("\x0f")
            second.until("keys ready")
            second.press("d")
            assert json.loads(calling.communicate(timeout=LONGEST)[0])["status"] == "denied"
        assert desk.document("status")["running"]
    finally:
        os.kill(kernel, signal.SIGTERM)
        until("it has ended", lambda: gone(kernel))
    assert not log.exists()
    assert desk.survivors() == []


def test_leaving_as_before_ends_the_kernel_and_what_waits(root: Root) -> None:
    desk = Desk(root.folder, root.base)
    with console_of(desk) as shown:
        shown.until("policy ok")
        calling = desk.start("call", "ask.do", "{}", "--json")
        shown.until("keys ready")
        shown.press("\x1b[27u")
        shown.until("request waits")
        shown.press("q")
        shown.until("leaves the kernel serving")
        shown.press("q")
        assert shown.end() == 0
    assert json.loads(calling.communicate(timeout=LONGEST)[0])["status"] == "denied"
    assert desk.document("status")["running"] is False
