"""A caller's key and its parser agree for every caller; what is no key makes a caller without a process."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flycore.model.caller import Caller, caller_origin, parse_caller_key
from kits.tables import each_row

CALLER = Caller(door="socket", program="claude", pid=12, started=345)


@pytest.mark.parametrize("executable", ["/usr/bin/claude", "/opt/a:b/c:d", ""])
def test_the_caller_comes_back_from_its_key(executable: str) -> None:
    program = executable.rpartition("/")[2] or "claude"
    caller = msgspec.structs.replace(CALLER, executable=executable, program=program)
    assert parse_caller_key(caller.key) == caller
    assert caller_origin(caller.key) == f"socket:{executable or program}"


@given(
    st.sampled_from(("console", "cli", "socket", "tcp", "http")),
    st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20),
    st.sampled_from(("", "/usr/bin/", "/opt/a:1:2/")),
    st.integers(0, 2**32),
    st.integers(0, 2**63),
)
def test_every_caller_comes_back(door: str, program: str, folder: str, pid: int, started: int) -> None:
    executable = f"{folder}{program}" if folder else ""
    caller = Caller(door=door, program=program, executable=executable, pid=pid, started=started)
    assert parse_caller_key(caller.key) == caller


@each_row(
    ("key", "program"),
    [
        ("", ""),
        ("socket", ""),
        ("socket:claude", "claude"),
        ("socket:claude:1", "claude:1"),
        ("socket:claude:1:x", "claude:1:x"),
        (f"socket:claude:1:{'9' * 5_000}", f"claude:1:{'9' * 5_000}"),
        ("socket:/:1:2", "/"),
    ],
)
def test_what_is_no_key_makes_a_caller_without_a_process(key: str, program: str) -> None:
    caller = parse_caller_key(key)
    assert caller.program == program
    if key != "socket:/:1:2":
        assert (caller.pid, caller.started) == (0, 0)
        assert caller_origin(key) == key
