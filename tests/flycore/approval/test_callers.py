"""Who calls and where the person sits, read from real processes and from hostile `/proc` trees."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flycore.approval.callers import identify_peer, is_own_command
from flysafe.procfs import ancestors, command_line, environment_value, read_process
from flytui.cli.own_windows import find_own_windows
from kits.programs import needs
from kits.tables import each_row


class Tree:
    """A `/proc` of our own making."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, pid: int, parent: int, exe: str, *, comm: str = "", argv=(), environ="", started=0) -> None:
        folder = self.root / str(pid)
        folder.mkdir()
        rest = " ".join(["0"] * 17)
        (folder / "stat").write_text(
            f"{pid} ({comm or exe.split('/')[-1]}) S {parent} {rest} {started or pid} 0\n"
        )
        (folder / "cmdline").write_bytes(b"".join(os.fsencode(word) + b"\0" for word in argv))
        (folder / "environ").write_bytes(environ.encode())
        if exe:
            (folder / "exe").symlink_to(exe)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_the_nearest_that_is_neither_shell_nor_flytui(tree: Tree) -> None:
    tree.add(1, 0, "/sbin/init")
    tree.add(10, 1, "/usr/bin/xterm")
    tree.add(20, 10, "/opt/claude/claude", started=77)
    tree.add(30, 20, "/usr/bin/bash")
    tree.add(31, 30, "/usr/bin/dash")
    tree.add(40, 31, "/usr/bin/python3.11", argv=("python3.11", "/x/bin/flytui", "call", "file.hash"))
    caller = identify_peer(40, "socket", proc=tree.root)
    assert (caller.program, caller.executable, caller.pid, caller.started) == (
        "claude",
        "/opt/claude/claude",
        20,
        77,
    )
    assert caller.door == "socket"
    assert ancestors(40, tree.root) == (31, 30, 20, 10)


def test_a_program_with_a_connection_of_its_own_is_itself(tree: Tree) -> None:
    tree.add(20, 1, "/usr/bin/claude")
    tree.add(30, 20, "/usr/bin/node")
    assert identify_peer(30, "socket", proc=tree.root).program == "node"


def test_only_shells_up_to_the_first_process_is_the_peer(tree: Tree) -> None:
    tree.add(1, 0, "/sbin/init")
    tree.add(30, 1, "/bin/sh")
    tree.add(40, 30, "/usr/bin/python3", argv=("python3", "-m", "flytui"))
    assert identify_peer(40, "cli", proc=tree.root).pid == 40


def test_a_name_with_brackets_and_a_deleted_program(tree: Tree) -> None:
    tree.add(9, 1, "/opt/agent (deleted)", comm="a) S 1 (b\n", started=5)
    caller = identify_peer(9, "socket", proc=tree.root)
    assert (caller.program, caller.started) == ("agent", 5)


def test_an_unreadable_program_goes_by_its_name(tree: Tree) -> None:
    tree.add(8, 1, "", comm="agent")
    tree.add(9, 8, "", comm="bash")
    assert identify_peer(9, "socket", proc=tree.root).program == "agent"


@pytest.mark.parametrize(
    "stat", ["", "garbage", "9 (x", "9 (x) S", "9 (x) S y z", "9 (x) S -1 " + "-1 " * 20]
)
def test_nonsense_is_an_unknown_caller(tree: Tree, stat: str) -> None:
    (tree.root / "9").mkdir()
    (tree.root / "9" / "stat").write_text(stat)
    assert identify_peer(9, "socket", proc=tree.root).program == "unknown"
    assert identify_peer(10, "socket", proc=tree.root).program == "unknown"


def test_a_circle_of_parents_ends(tree: Tree) -> None:
    tree.add(5, 6, "/bin/sh")
    tree.add(6, 5, "/bin/sh")
    assert ancestors(5, tree.root) == (6,)
    assert identify_peer(5, "socket", proc=tree.root).pid == 5


@each_row(
    ("argv", "expected"),
    [
        (("python3", "-m", "flytui", "call"), True),
        (("python3", "-mflytui"), True),
        (("python3", "-X", "dev", "-W", "error", "-I", "/v/bin/flytui"), True),
        (("python3", "/v/bin/flytui-sidecar"), False),
        (("python3", "-m", "flytui2"), False),
        (("python3", "-c", "print()", "flytui"), False),
        (("python3", "agent.py", "flytui"), False),
        (("python3", "-m"), False),
        (("python3", "-"), False),
        (("python3",), False),
        ((), False),
    ],
)
def test_what_is_flytui_itself(argv: tuple[str, ...], expected: bool) -> None:
    for name in ("python3", "python3.11", "python", "pypy3.10", "python3.13t"):
        assert is_own_command(name, argv) is expected
    assert not is_own_command("node", argv)
    assert is_own_command("flytui", argv)


def test_a_real_process_behind_a_real_shell() -> None:
    script = "import os,sys; print(os.getpid()); sys.stdout.flush(); sys.stdin.read()"
    command = ["sh", "-c", f'"{sys.executable}" -c "{script}"; exit 0']
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        pid = int(shell.stdout.readline())
        caller = identify_peer(pid, "socket")
        through_shell = identify_peer(shell.pid, "socket")
        assert read_process(pid).started == caller.started
        shell.communicate("")
    assert (caller.pid, caller.executable) == (pid, os.path.realpath(sys.executable))
    assert through_shell.pid in (os.getpid(), *ancestors(os.getpid()), shell.pid)
    assert through_shell.pid != pid
    assert identify_peer(pid, "socket").program == "unknown"


def test_arguments_and_environment_of_a_real_process() -> None:
    environ, pipe = {"WINDOWID": "77", "A": "WINDOWID=8"}, subprocess.PIPE
    with subprocess.Popen(["cat"], stdin=pipe, stdout=pipe, env=environ, bufsize=0) as cat:
        cat.stdin.write(b"ready\n")
        assert cat.stdout.readline() == b"ready\n"
        assert command_line(cat.pid) == ("cat",)
        assert environment_value(cat.pid, "WINDOWID") == "77"
        assert environment_value(cat.pid, "B") == ""
        cat.communicate(b"")


def test_a_plain_terminal_s_seat(tree: Tree) -> None:
    tree.add(1, 0, "/sbin/init")
    tree.add(5, 1, "/usr/bin/xterm")
    tree.add(6, 5, "/bin/bash", environ="WINDOWID=99\0")
    tree.add(7, 6, "/usr/bin/python3", environ="WINDOWID=88\0")
    windows, pids = find_own_windows({"WINDOWID": "42"}, 7, lambda argv: pytest.fail("ran"), proc=tree.root)
    assert (windows, pids) == ((42, 88), (5, 6, 7))


@pytest.mark.parametrize("word", ["", "x", "-3", "0", "1e3", "²"])
def test_a_window_id_that_is_none(tree: Tree, word: str) -> None:
    tree.add(7, 1, "/usr/bin/python3")
    assert find_own_windows({"WINDOWID": word}, 7, lambda argv: None, proc=tree.root) == ((), (7,))


def test_tmux_clients_sit_there_too(tree: Tree) -> None:
    tree.add(5, 1, "/usr/bin/tmux")
    tree.add(7, 5, "/usr/bin/python3")
    tree.add(20, 1, "/usr/bin/xterm")
    tree.add(21, 20, "/usr/bin/tmux", environ="A=1\0WINDOWID=4242\0")
    asked = []

    def run(argv: tuple[str, ...]) -> str:
        asked.append(argv)
        return "21\n\nnonsense\n"

    windows, pids = find_own_windows({"TMUX": "/tmp/a,b/default,5,0"}, 7, run, proc=tree.root)
    assert asked == [("tmux", "-S", "/tmp/a,b/default", "list-clients", "-F", "#{client_pid}")]
    assert (windows, pids) == ((4242,), (5, 7, 20, 21))
    assert find_own_windows({"TMUX": "x,1,1"}, 7, lambda argv: None, proc=tree.root) == ((), (5, 7))


def test_screen_clients_sit_there_too(tree: Tree) -> None:
    tree.add(5, 1, "/usr/bin/screen", comm="SCREEN")
    tree.add(7, 5, "/usr/bin/python3")
    tree.add(20, 1, "/usr/bin/xterm")
    tree.add(21, 20, "/usr/bin/screen", comm="screen", environ="WINDOWID=5\0")
    (tree.root / "self").symlink_to("7")
    assert find_own_windows({"STY": "5.tty.host"}, 7, lambda argv: None, proc=tree.root) == (
        (5,),
        (5, 7, 20, 21),
    )


@pytest.mark.e2e
def test_a_real_tmux_is_asked(tmp_path: Path) -> None:
    needs("tmux")
    socket = str(tmp_path / "s")
    environ = {**os.environ, "TERM": "xterm", "TMUX": ""}
    subprocess.run(["tmux", "-S", socket, "new-session", "-d", "cat"], check=True, env=environ)
    try:
        said = []

        def run(argv: tuple[str, ...]) -> str:
            said.append(subprocess.run(argv, check=True, capture_output=True, text=True, env=environ).stdout)
            return said[-1]

        assert os.getpid() in find_own_windows({"TMUX": f"{socket},1,0"}, os.getpid(), run)[1]
        assert said == [""]
    finally:
        subprocess.run(["tmux", "-S", socket, "kill-server"], check=True, env=environ)


@pytest.mark.parametrize("wrapper", ["timeout", "env", "sudo", "xargs", "nice", "setsid"])
def test_a_wrapper_is_not_the_caller(tree: Tree, wrapper: str) -> None:
    tree.add(20, 1, "/opt/claude/claude", started=77)
    tree.add(30, 20, f"/usr/bin/{wrapper}", argv=(wrapper, "60", "flytui", "call"))
    tree.add(40, 30, "/usr/bin/python3.11", argv=("python3.11", "/x/bin/flytui", "call", "file.hash"))
    caller = identify_peer(40, "socket", proc=tree.root)
    assert (caller.program, caller.pid, caller.title) == ("claude", 20, "Claude Code")


def test_two_sessions_differ_by_terminal_or_folder(tree: Tree, tmp_path: Path) -> None:
    pane = "HOME=/root\0TMUX_PANE=%7\0"
    tree.add(10, 1, "/usr/bin/tmux", comm="tmux: server")
    tree.add(20, 10, "/opt/claude/claude", environ=pane)
    tree.add(21, 10, "/opt/claude/claude", environ="TMUX_PANE=evil\x1b[2J\0")
    for pid in (20, 21):
        (tree.root / str(pid) / "cwd").symlink_to(tmp_path / f"shop{pid}")
    first, second = (identify_peer(pid, "socket", proc=tree.root) for pid in (20, 21))
    assert (first.folder, first.terminal) == (str(tmp_path / "shop20"), "tmux pane %7")
    assert (second.folder, second.terminal) == (str(tmp_path / "shop21"), "")
    assert first.ancestors == ("tmux: server 10",)


def test_a_multiplexer_is_told_by_the_session_that_calls(tree: Tree, tmp_path: Path) -> None:
    tree.add(10, 1, "/usr/bin/tmux", comm="tmux: server")
    tree.add(20, 10, "/usr/bin/bash", environ="TMUX_PANE=%3\0")
    (tree.root / "10" / "cwd").symlink_to("/")
    (tree.root / "20" / "cwd").symlink_to(tmp_path)
    caller = identify_peer(20, "socket", proc=tree.root)
    assert (caller.pid, caller.folder, caller.terminal) == (10, str(tmp_path), "tmux pane %3")


def test_a_program_without_a_file_is_named_by_what_it_runs(tree: Tree) -> None:
    tree.add(20, 1, "/memfd:sealed-ab12 (deleted)", comm="worker")
    caller = identify_peer(20, "socket", proc=tree.root)
    assert "memfd" not in f"{caller} {caller.key} {caller.title}"
    assert caller.title == "worker"
    assert not caller.is_sidecar
    # What the system calls such a program, where it gives itself no name.
    tree.add(21, 1, "/memfd:sealed-ab12 (deleted)", comm="memfd:sealed-ab")
    (tree.root / "21" / "cmdline").write_bytes(b"tools/backend\0--serve\0")
    caller = identify_peer(21, "socket", proc=tree.root)
    assert "memfd" not in f"{caller} {caller.key} {caller.title}"
    assert caller.title == "backend"
    tree.add(22, 21, "/opt/agent")
    below = identify_peer(22, "socket", proc=tree.root)
    assert [name for name in below.ancestors if "memfd" in name] == []
    assert below.ancestors


def test_python_code_has_the_name_of_the_program_above_and_an_identity_of_its_own(tree: Tree) -> None:
    tree.add(20, 1, "/usr/bin/node", argv=("node", "/usr/lib/node_modules/@google/gemini-cli/dist/index.js"))
    tree.add(30, 20, "/usr/bin/bash")
    tree.add(40, 30, "/usr/bin/python3", argv=("python3", "-c", "import os"))
    caller = identify_peer(40, "socket", proc=tree.root)
    assert (caller.pid, caller.program, caller.title) == (40, "python3", "Gemini CLI")


def test_a_real_process_shows_its_folder_and_its_script(tmp_path: Path) -> None:
    script = tmp_path / "notes_agent.py"
    script.write_text("print('up', flush=True)\ninput()\n")
    with subprocess.Popen(
        [sys.executable, str(script)], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline()
        caller = identify_peer(child.pid, "socket")
        child.communicate(b"\n")
    assert (caller.title, caller.folder) == ("notes_agent.py", str(tmp_path))
    assert caller.ancestors
