"""What /proc shows of real processes, and of hostile contents."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from flysafe.procfs import (
    Process,
    ancestor_names,
    ancestors,
    descendants,
    environment_of,
    executable_of,
    listening_sockets,
    own_children,
    process_table,
    read_process,
    send_signal,
    starters,
    terminal_of,
    ticks_now,
)


def _stat(root: Path, pid: int, name: str, *, parent: int = 1, terminal: int = 0, started: int = 7) -> None:
    (root / str(pid)).mkdir()
    rest = " ".join(["0"] * 14)
    (root / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} 3 4 {terminal} {rest} {started} 0\n")


def test_a_real_child() -> None:
    before = ticks_now()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True) as cat:
        found = read_process(cat.pid)
        assert found is not None
        assert (found.parent, found.session, found.name, found.ended) == (os.getpid(), cat.pid, "cat", False)
        assert before <= found.started <= ticks_now()
        assert process_table()[cat.pid].started == found.started
        assert cat.pid in own_children()
        assert ancestors(cat.pid)[0] == os.getpid()
        assert os.path.basename(executable_of(cat.pid)) in ("cat", "coreutils", "busybox")
        send_signal(found._replace(started=found.started + 1), signal.SIGKILL)
        assert cat.poll() is None
        send_signal(found, signal.SIGKILL, signal.SIGCONT)
        assert cat.wait() == -signal.SIGKILL
    assert read_process(cat.pid) is None
    assert (environment_of(cat.pid), executable_of(cat.pid), terminal_of(cat.pid)) == ([b""], "", "")
    send_signal(found, signal.SIGKILL)


def test_a_program_was_started_through_shells_by_the_first_program_above_them(tmp_path: Path) -> None:
    chain = {9: "flytui", 8: "timeout", 7: "bash", 6: "node", 5: "sh"}
    for pid, name in chain.items():
        _stat(tmp_path, pid, name, parent=pid - 1 if pid > 5 else 1)
        (tmp_path / str(pid) / "exe").symlink_to(f"/usr/bin/{name}")
    assert starters(9, tmp_path) == (8, 7, 6)
    assert starters(6, tmp_path) == (5,)
    assert starters(5, tmp_path) == ()


def test_a_name_may_hold_anything(tmp_path: Path) -> None:
    _stat(tmp_path, 9, "a) S 1 (b\n", parent=8)
    _stat(tmp_path, 8, "sh")
    assert read_process(9, tmp_path) == Process(9, "S", 8, 4, 0, 7, "a) S 1 (b\n")
    assert ancestor_names(9, tmp_path) == ("sh 8",)


@pytest.mark.parametrize("stat", ["", "x", "9 (x", "9 x) S", "9 (x) S y z", "9 (x) S -1 " + "-1 " * 20])
def test_a_stat_that_is_none(tmp_path: Path, stat: str) -> None:
    (tmp_path / "9").mkdir()
    (tmp_path / "9" / "stat").write_text(stat)
    assert (read_process(9, tmp_path), process_table(tmp_path), terminal_of(9, tmp_path)) == (None, {}, "")


@pytest.mark.parametrize(
    ("number", "name"), [(0, ""), (-1, ""), (34819, "pts/3"), (1026, "tty2"), (1088, "4:64"), (1280, "5:0")]
)
def test_terminals(tmp_path: Path, number: int, name: str) -> None:
    _stat(tmp_path, 9, "sh", terminal=number)
    assert terminal_of(9, tmp_path) == name


def test_descendants_of_a_table_that_holds_a_circle() -> None:
    rows = ((2, 1), (3, 2), (4, 3), (5, 9), (6, 7), (7, 6))
    table = {pid: Process(pid, "S", parent, 0, 0, 0, "") for pid, parent in rows}
    assert descendants([2], table) == [2, 3, 4]
    assert descendants([3, 2, 3], table) == [3, 2, 4]
    assert descendants([6, 8], table) == [6, 8, 7]


def test_a_socket_that_listens(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = f"0100007F:{server.getsockname()[1]:04X}"
        assert there in listening_sockets()
        with socket.create_connection(server.getsockname()) as client:
            assert f"0100007F:{client.getsockname()[1]:04X}" not in listening_sockets()
    assert there not in listening_sockets()
    assert listening_sockets(tmp_path) == frozenset()
    (tmp_path / "self" / "net").mkdir(parents=True)
    (tmp_path / "self" / "net" / "tcp").write_bytes(b"head\n\n0: x\n1: \xff:1 y 0A z\n2: a:2 y 01 z\n")
    assert listening_sockets(tmp_path) == {"\ufffd:1"}
