"""Suite S5 on everything that exists: texts from outside in every place, real terminals, raw bytes judged."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flytui.cli.call_progress import ERASE
from kits.command import COMMAND, WITHOUT_PATIENCE
from kits.hostile_root import (
    ASKED,
    BENIGN,
    MODES,
    entries,
    hostile_caller,
    hostile_root,
    recorded_console,
    sent_by_console,
)
from kits.kernels import end_kernels
from kits.payloads import COLOUR, CONSOLE, FULL, MARK, PAYLOADS, PLAIN, faults, word
from kits.scenes import assert_whole, write_registry
from kits.terminals import BIN, PATIENCE, Root, Tmux, needs, until

pytestmark = [pytest.mark.suite, pytest.mark.long, pytest.mark.timeout(600)]
AT_ONCE = 3
"""Commands run side by side."""


@pytest.fixture(params=PAYLOADS.values(), ids=PAYLOADS)
def text(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path, text: str) -> Iterator[Root]:
    root = hostile_root(tmp_path, text)
    yield root
    root.end()


def commands(text: str, call_id: str) -> list[tuple[str, ...]]:
    """Every command, with whatever of it can come from outside."""
    said = word(text)
    results = [("call", BENIGN, json.dumps({"mode": mode, text: text})) for mode in MODES]
    return [
        ("catalog",),
        ("catalog", "--filter", said),
        ("inspect", "evil.local"),
        ("inspect", BENIGN),
        ("inspect", said),
        ("why", ASKED),
        ("why", said),
        ("doctor",),
        ("preflight", BENIGN, said),
        ("tools",),
        ("trust",),
        ("status",),
        ("approvals",),
        ("approvals", "show", said),
        ("audit", "tail", "-n", "100"),
        ("audit", "show", call_id),
        ("audit", "show", said),
        ("audit", "verify"),
        ("schema", said),
        ("activity",),
        ("activity", "show", call_id),
        ("activity", "show", said),
        ("activity", "cancel", said),
        ("config", "show"),
        ("lint",),
        ("lint", "tools/payload"),
        ("lint", said),
        ("grants",),
        ("completion", said),
        ("init",),
        ("enable", said),
        ("disable", said, "--reason", said),
        ("sidecar", "check", said),
        ("sidecar", "check", "tools/bin-evil/run", "--tool", BENIGN, "--input", '{"mode": "error"}'),
        *results,
        ("call", said, "{}"),
        ("call", BENIGN, said),
        ("call", BENIGN, f"{said}={said}"),
        ("call", BENIGN, json.dumps({"mode": 7})),
        ("call", "file.hash", json.dumps({"path": text, "algorithm": text})),
        ("call", ASKED, "{}", "--say", said),
        (said,),
        (f"--{said}",),
        ("--root", said, "catalog", "--filter", "file"),
    ]


def piped(words: tuple[str, ...]) -> bool:
    """Whether the command is run into a pipe as well: at quick size, those that print differently there."""
    tables = ("catalog", "inspect", "doctor", "preflight", "trust", "approvals", "audit", "activity")
    others = (("config", "show"), ("lint",))
    return FULL or words[0] in tables or words in others or words[:2] == ("call", BENIGN)


def test_no_command_prints_a_payload(root: Root, text: str) -> None:
    root.trust()
    later = {
        **entries(root, text),
        "later": {"command": "true", "args": [word(text)], "tools": ["lsp.symbols"]},
    }
    write_registry(root, later)
    call = root.flytui("call", BENIGN, json.dumps({"mode": "error", text: text}), "--json")
    assert call.stdout.isascii()
    result = json.loads(call.stdout)
    assert result["error"]["message"] == text
    every = commands(text, result["callId"])
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for words, found in zip(every, pool.map(lambda words: _both_ways(root, words), every), strict=True):
            assert found == [], words
    assert_whole(root)
    assert not [line for line in root.audit() if line.get("decision") == "approved"]


def test_a_shell_is_offered_no_payload_to_complete(root: Root) -> None:
    for words in ("flytui inspect ", "flytui call ", "flytui enable "):
        asked = {"_FLYTUI_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "2"}
        done = subprocess.run(
            [str(BIN / "flytui")],
            env={**root.environ, **asked},
            cwd=root.folder,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.stderr == b""
        assert re.fullmatch(rb"(plain,[A-Za-z0-9._-]+\n)+", done.stdout), words


def test_a_text_from_outside_forges_no_line(root: Root, text: str) -> None:
    """An error of many lines stays below the line that flytui itself wrote."""
    root.trust()
    said = root.flytui("call", BENIGN, json.dumps({"mode": "error"})).stderr
    first, *rest = said.splitlines()
    assert first.startswith("failed: ")
    assert all(line.startswith("  ") for line in rest)


def test_a_root_held_by_who_knows_whom(root: Root, text: str) -> None:
    state = root.home / "state/flytui/roots"
    root.trust()
    end_kernels(root.home)
    root.extra.update(WITHOUT_PATIENCE)
    (lock,) = state.glob("*/kernel.lock")
    with lock.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps({"pid": 1, "since": 0.0, "role": text}))
        file.flush()
        for words in (("trust",), ("trust", "--revoke"), ("status",)):
            assert _both_ways(root, words) == [], words


def _both_ways(root: Root, words: tuple[str, ...]) -> list[str]:
    """What a command lets through to a pipe and to a terminal."""
    argv = [str(BIN / "flytui"), "--root", str(root.folder), *words]
    written = _on_terminal(argv, root)
    assert ERASE not in " ".join(words)  # so that each one in what was written is flytui's own
    found = _of(written.replace(ERASE.encode(), b""), COLOUR)
    if piped(words):
        done = COMMAND.run(argv, root.environ, root.folder, b"", PATIENCE)
        found += _of(done.stdout + done.stderr, PLAIN)
    return found


def _of(written: bytes, own: re.Pattern[str]) -> list[str]:
    crashed = ["crashed"] if b"Traceback" in written else []
    return [*crashed, *faults(written, own)] if written else ["said nothing"]


def _on_terminal(argv: list[str], root: Root) -> bytes:
    """All that a command writes to a terminal; what it asks there is answered with no."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    modes = termios.tcgetattr(follower)
    modes[3] &= ~termios.ECHO
    termios.tcsetattr(follower, termios.TCSANOW, modes)
    process = COMMAND.start_on_terminal(argv, root.environ, root.folder, follower)
    os.write(leader, b"n\n")
    written = b""
    try:
        while part := _read(leader):
            written += part
    finally:
        os.close(leader)
    process.wait(PATIENCE)
    return written


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65_536)
    except OSError:
        return b""


@pytest.mark.e2e
def test_the_console_draws_no_payload_and_decides_nothing(root: Root, text: str, tmp_path: Path) -> None:
    needs("tmux", "timeout")
    caller = hostile_caller(root, text)
    with recorded_console(root, tmp_path / "raw") as tmux:
        _trust(tmux)
        _walk_catalog(tmux)
        for mode in MODES:
            root.flytui("call", BENIGN, json.dumps({"mode": mode, text: text}))
        _walk_activity(tmux)
        _refuse_a_card(root, tmux, caller, text)
        _paste(tmux, text)
        tmux.keys("1")
        tmux.sees(r"evil\.run")
        raw = sent_by_console(tmux, tmp_path / "raw")
    assert MARK.encode() in raw
    assert faults(raw, CONSOLE) == []
    decided = [line["decision"] for line in root.audit() if line["event"] == "APPROVAL_DECIDED"]
    assert decided == ["denied"]
    assert not [line for line in root.audit() if line["event"] == "TOOL_STARTED" and line["tool"] == ASKED]
    assert_whole(root)


def _trust(tmux: Tmux) -> None:
    """Read the question to its end and accept it, as a person does."""
    tmux.sees("trust nothing now")
    seen = [tmux.screen()]

    def reads_on() -> bool:
        tmux.keys("NPage")
        seen.append(tmux.screen())
        return re.search(r"more pages? before", seen[-1]) is None

    # Some payloads are a token a character, and the question is some hundred pages long.
    until("the question is read", reads_on, 5 * PATIENCE)
    tmux.decide()
    tmux.sees(r"evil\.run")


def _walk_catalog(tmux: Tmux) -> None:
    tmux.sees(r"degraded +evil\.run")
    for _ in range(4):
        tmux.keys("Down")
        tmux.keys("Enter")
        _reads_and_leaves(tmux)
    tmux.keys("p")
    _reads_and_leaves(tmux)
    tmux.keys("y", "s", "s", "R")


def _walk_activity(tmux: Tmux) -> None:
    tmux.keys("3")
    tmux.sees("evil.run")
    for _ in MODES:
        tmux.keys("Enter")
        _reads_and_leaves(tmux)
        tmux.keys("Down")


def _reads_and_leaves(tmux: Tmux) -> None:
    """A page over the whole screen: to its end, and back. Escape goes alone, or it would be a part of the
    next key."""
    tmux.sees("Esc back")
    tmux.keys("NPage", "NPage", "End")
    tmux.keys("Escape")
    tmux.lacks("Esc back")


def _refuse_a_card(root: Root, tmux: Tmux, caller: str, text: str) -> None:
    """A call by a program whose name is a payload: read its card to the end, look at why, then deny it."""
    asking = json.dumps({"mode": text, text: text, "more": [text, {text: text}]})
    argv = [caller, "60", str(BIN / "flytui"), "--root", str(root.folder), "call", ASKED, asking]
    with subprocess.Popen(
        [*argv, "--say", word(text)],
        env=root.environ,
        cwd=root.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as calling:
        until("the request waits", lambda: calling.poll() is not None or _waiting(root))
        assert calling.poll() is None, calling.communicate()
        for words in (("approvals",), ("approvals", "show", _waiting(root)), ("status",)):
            assert _both_ways(root, words) == [], words
        tmux.keys("C-o")
        tmux.sees("then ‹")
        tmux.keys("NPage", "NPage", "End", "w")
        _reads_and_leaves(tmux)
        until("it is denied", lambda: _pressed_d(tmux, calling))
        out, err = calling.communicate(timeout=PATIENCE)
    assert calling.returncode == 4
    assert faults(out, PLAIN) == []
    assert faults(err, PLAIN) == []


def _pressed_d(tmux: Tmux, calling: subprocess.Popen[bytes]) -> bool:
    """Deny, and whether it was taken: a key counts once the card has reached the terminal again."""
    tmux.keys("d")
    for _ in range(40):
        if calling.poll() is not None:
            return True
        time.sleep(0.05)
    return False


def _waiting(root: Root) -> str:
    """The id of the request that waits, empty while there is none."""
    asks = json.loads(root.flytui("approvals", "--json").stdout)["asks"]
    return next((ask["request"]["id"] for ask in asks if ask["state"] == "waiting"), "")


def _paste(tmux: Tmux, text: str) -> None:
    """A person pastes the payload where text is written."""
    tmux.keys("1")
    tmux.sees(r"RISK +WHY")
    tmux.keys("/")
    tmux.sees("Esc clear it")
    tmux.run("set-buffer", word(text))
    tmux.run("paste-buffer", "-p", "-r")
    tmux.sees(r"\d of \d+ match")

    def is_cleared() -> bool:
        # A payload may end the paste and go on with Enter, which keeps the filter and closes its line.
        if "Esc clear" not in tmux.screen():
            return True
        tmux.keys("Escape")
        return False

    until("the filter is cleared", is_cleared)
