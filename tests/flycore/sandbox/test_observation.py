"""What an observer notes of a confined program, and that nothing which the program does makes it more than
evidence."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from flycore.runners.child.launcher import launcher_id, prepare_launcher
from flycore.runners.child.observer_program import LONGEST_PATH, MOST_NOTES
from flycore.runners.child.run import ChildExit, RunLimits, run_child
from flycore.runners.child.spawn import SpawnSpec
from flycore.sandbox import landlock
from flycore.sandbox.confinement import Confinement, Mount, read_system_layout
from flycore.sandbox.launch import Launch, degraded_launch, enforced_launch
from flycore.sandbox.observation import why_not_observed
from flysafe.procfs import children_of
from kits.programs import needs_bubblewrap
from kits.started_children import started_children

pytestmark = pytest.mark.anyio
Maker = Callable[..., Launch]
LIMITS = RunLimits(timeout_ms=60_000, max_output_bytes=1_048_576)
PYTHON = "/usr/bin/python3"
TRIES = """
def tried(what):
    try:
        what()
        print("done")
    except OSError as error:
        print(error.errno)
"""


@pytest.fixture(params=[enforced_launch, degraded_launch], ids=["enforced", "degraded"])
def make(request: pytest.FixtureRequest) -> Maker:
    """Each way to launch, where this machine has what it needs."""
    if request.param is enforced_launch:
        needs_bubblewrap()
    elif not landlock.version():
        pytest.skip("this kernel has no Landlock")
    if why := why_not_observed():
        pytest.skip(f"NOT TESTED: {why}")
    if not os.path.exists(PYTHON):
        pytest.skip(f"NOT TESTED: there is no {PYTHON}")
    maker: Maker = request.param
    return maker


async def run(
    make: Maker,
    project: Path,
    script: str,
    *,
    observed: bool = True,
    network: bool = False,
    on_stdout: Callable[[bytes], None] | None = None,
) -> ChildExit:
    """Run the script in a project of which it is granted nothing but itself and the folder `granted`."""
    program = project / "program.py"
    program.write_text(script)
    (project / "granted").mkdir(exist_ok=True)
    mounts = (Mount(str(program)), Mount("/usr"), Mount(str(project / "granted"), writable=True))
    confinement = Confinement(mounts=mounts, cwd=str(project), shown_empty=(str(project),), network=network)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(project.parent / "home")}
    command = (PYTHON, "-I", "-S", str(program))
    spec = SpawnSpec(
        argv=command, cwd=str(project), env=env, call_id="call",
        confine=lambda _: make(confinement, read_system_layout(), env, command, observed=observed),
    )  # fmt: skip
    return await run_child(spec, b"", LIMITS, on_stdout)


def notes(ended: ChildExit) -> list[str]:
    """The notes of a run that was observed."""
    assert ended.notes is not None
    return [note.decode("utf-8", "surrogateescape") for note in ended.notes.split(b"\0")[:-1]]


async def test_what_is_refused_is_noted_and_what_is_granted_is_not(make: Maker, tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text("{}")
    script = f"""{TRIES}
import os, socket
tried(lambda: open("data.json"))
tried(lambda: open("new.txt", "w"))
tried(lambda: os.mkdir("made"))
tried(lambda: os.rename("granted/x", "outside"))
tried(lambda: open("granted/file", "w"))
tried(lambda: open({str(tmp_path)!r} + "/granted/../data.json"))
os.chdir("granted")
tried(lambda: open("../other"))
tried(lambda: os.open("data2", os.O_RDONLY, dir_fd=os.open("..", os.O_PATH)))
tried(lambda: socket.socket())
tried(lambda: socket.socket(socket.AF_UNIX))
tried(lambda: socket.socketpair())
"""
    ended = await run(make, tmp_path, script)
    assert ended.exit_code == 0, ended.stderr_tail
    found = notes(ended)
    for note in (
        f"r{tmp_path}/data.json",
        f"w{tmp_path}/new.txt",
        f"d{tmp_path}/made",
        f"w{tmp_path}/outside",
        f"r{tmp_path}/other",
        f"r{tmp_path}/data2",
        "n",
        "x",
    ):
        assert found.count(note) == 1, (note, found)
    assert not [note for note in found if "granted" in note or note[1:].startswith("/usr")]
    assert not (tmp_path / "new.txt").exists()


async def test_sockets_that_the_observer_refuses_stay_refused(make: Maker, tmp_path: Path) -> None:
    script = f"""{TRIES}
import socket
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK, socket.AF_PACKET):
    tried(lambda: socket.socket(family, socket.SOCK_DGRAM))
"""
    with_observer, without = (
        await run(make, tmp_path, script),
        await run(make, tmp_path, script, observed=False),
    )
    assert with_observer.stdout == without.stdout
    assert with_observer.stdout.split() == [b"97"] * 5
    assert without.notes is None


async def test_a_granted_family_works(make: Maker, tmp_path: Path) -> None:
    script = f"""{TRIES}
import socket
tried(lambda: socket.socket())
tried(lambda: socket.socket(socket.AF_UNIX))
"""
    ended = await run(make, tmp_path, script, network=True)
    assert ended.stdout.split() == [b"done", b"97"]
    assert "n" not in notes(ended)


async def test_a_flood_of_names_is_bounded(make: Maker, tmp_path: Path) -> None:
    script = """
for number in range(5_000):
    try:
        open(f"missing/{'x' * 3_000}/{number}")
    except OSError:
        pass
print("done")
"""
    ended = await run(make, tmp_path, script)
    found = notes(ended)
    assert ended.stdout == b"done\n"
    assert len(found) == MOST_NOTES + 1
    assert found[-1] == "m"
    assert max(map(len, found)) < LONGEST_PATH + 1


HOSTILE = """
import ctypes, os, threading
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 257, "aarch64": 56}[os.uname().machine]
def opened(folder, path, flags=0):
    return libc.syscall(ctypes.c_long(number), ctypes.c_long(folder), path, ctypes.c_long(flags))
names = (b"new\\nline", b"\\x1b]0;title\\x07", b"\\xff\\xfe", b"${input.x}")
for path in (*names, b"a" * 4_095, b"b/" * 2_047, b""):
    opened(-100, ctypes.c_char_p(path))
longest = ctypes.create_string_buffer(b"c" * 5_000)
opened(-100, longest)
for address in (0, 1, 1 << 47, (1 << 63) - 1, (1 << 64) - 1):
    opened(-100, ctypes.c_void_p(address))
for folder in (-1, 99, 1 << 31, -(1 << 31)):
    opened(folder, ctypes.c_char_p(b"relative"))
open("/proc/self/mem").close()
def work():
    for count in range(200):
        opened(-100, ctypes.c_char_p(b"many"))
threads = [threading.Thread(target=work) for _ in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for _ in range(5):
    if os.fork() == 0:
        threading.Thread(target=work).start()
        os._exit(0)
for _ in range(5):
    os.wait()
try:
    open("last")
except OSError:
    pass
if os.environ.get("AGAIN") is None:
    os.execve("/usr/bin/env", ["env", "-i", "/bin/sh", "-c", "cat after; echo done"], {})
"""


async def test_hostile_arguments_change_nothing(make: Maker, tmp_path: Path) -> None:
    ended = await run(make, tmp_path, HOSTILE)
    found = notes(ended)
    assert ended.stdout == b"done\n", ended.stderr_tail
    for name in ("new\nline", "\x1b]0;title\x07", "\udcff\udcfe", "${input.x}", "many", "last", "after"):
        assert f"r{tmp_path}/{name}" in found
    assert not [note for note in found if "relative" in note or "c" * 4_000 in note]


async def test_a_program_that_is_killed_in_the_middle_leaves_whole_notes(make: Maker, tmp_path: Path) -> None:
    script = """
import os, signal, threading
def work():
    while True:
        try:
            open("endless")
        except OSError:
            pass
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
try:
    open("first")
except OSError:
    pass
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = await run(make, tmp_path, script)
    assert ended.exit_code == -9
    assert f"r{tmp_path}/first" in notes(ended)
    # The next one is served as well.
    assert (await run(make, tmp_path, "print(1)")).stdout == b"1\n"


async def test_nothing_is_left_open(make: Maker, tmp_path: Path) -> None:
    await run(make, tmp_path, "pass")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await run(make, tmp_path, "open('x')")
    assert len(os.listdir("/proc/self/fd")) == before


WITHOUT = f"""{TRIES}
import errno, os, socket
print("ready", flush=True)
while True:
    try:
        os.open("missing", os.O_RDONLY)
    except OSError as error:
        if error.errno == errno.ENOSYS:
            break
tried(lambda: socket.socket())
tried(lambda: os.open("granted", os.O_RDONLY))
"""


async def test_without_its_observer_a_program_reaches_nothing(make: Maker, tmp_path: Path) -> None:
    prepare_launcher()

    def kill_observer(data: bytes) -> None:
        if b"ready" in data:
            for observer in children_of(launcher_id()) - started_children():
                os.kill(observer, signal.SIGKILL)

    ended = await run(make, tmp_path, WITHOUT, on_stdout=kill_observer)
    assert ended.stdout.split() == [b"ready", b"38", b"38"], ended.stderr_tail
