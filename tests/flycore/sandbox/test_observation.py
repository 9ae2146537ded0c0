"""What an observer notes of a confined program, and that nothing which the program does makes it more than
evidence."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from flycore.runners.child import observer
from flycore.runners.child.observer import observer_id
from flycore.runners.child.observer_program import LONGEST_PATH, MOST_NOTES
from flycore.runners.child.run import ChildExit, RunLimits, _Running, run_child
from flycore.runners.child.spawn import SpawnSpec
from flycore.sandbox import landlock
from flycore.sandbox.confinement import Confinement, Mount, read_system_layout
from flycore.sandbox.launch import Launch, degraded_launch, enforced_launch
from flycore.sandbox.observation import why_not_observed
from flysafe.procfs import children_of, read_process
from kits.kernel import until
from kits.programs import needs_bubblewrap

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


def kill_observer(data: bytes) -> None:
    if b"ready" in data:
        os.kill(observer_id(), signal.SIGKILL)


async def test_without_its_observer_a_program_reaches_nothing(
    make: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def goes_on(running: _Running) -> None:
        assert running._observation is not None
        running._reactor.forget(running._observation.descriptor)

    monkeypatch.setattr(_Running, "_on_observation", goes_on)
    ended = await run(make, tmp_path, WITHOUT, on_stdout=kill_observer)
    assert ended.stdout.split() == [b"ready", b"38", b"38"], ended.stderr_tail


async def test_a_call_ends_with_its_observer_and_the_next_one_has_another(
    make: Maker, tmp_path: Path
) -> None:
    script = "import time\nprint('ready', flush=True)\ntime.sleep(600)"
    ended = await run(make, tmp_path, script, on_stdout=kill_observer)
    assert (ended.observer_lost, ended.exit_code, ended.notes) == (True, -9, None)
    lost = observer_id()
    ended = await run(make, tmp_path, "try:\n    open('x')\nexcept OSError:\n    print(1)")
    assert (ended.observer_lost, ended.stdout) == (False, b"1\n")
    assert f"r{tmp_path}/x" in notes(ended)
    assert observer_id() != lost
    assert read_process(lost) is None


async def test_a_program_that_fails_without_its_observer_is_told_of(
    make: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its exit may be seen before the end of the observer.
    monkeypatch.setattr(_Running, "_on_observation", lambda running: None)
    script = "import os\nprint('ready', flush=True)\nwhile True:\n    os.close(os.open('/usr', 0))"
    ended = await run(make, tmp_path, script, on_stdout=kill_observer)
    assert (ended.observer_lost, ended.exit_code, ended.notes) == (True, 1, None)


async def test_a_program_that_has_not_run_is_started_with_another_observer(
    make: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver, killed = observer._deliver, []

    def delivered(descriptors: tuple[int, ...]) -> None:
        deliver(descriptors)
        if not killed:
            # It has the order, and the listener comes later.
            killed.append(observer_id())
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(observer, "_deliver", delivered)
    ended = await run(make, tmp_path, "try:\n    open('x')\nexcept OSError:\n    print(1)")
    assert (ended.observer_lost, ended.stdout) == (False, b"1\n"), ended
    assert f"r{tmp_path}/x" in notes(ended)
    assert killed != [observer_id()]


async def test_an_observer_that_was_stopped_goes_on(make: Maker, tmp_path: Path) -> None:
    def stop(data: bytes) -> None:
        if b"ready" in data:
            os.kill(observer_id(), signal.SIGSTOP)

    script = "import os, sys\nprint('ready', flush=True)\nsys.stdin.read()\nos.close(os.open('/usr', 0))"
    ended = await run(make, tmp_path, script, on_stdout=stop)
    assert (ended.exit_code, ended.observer_lost) == (0, False), ended


FLOODS = """
import os, threading
def work():
    while not os.path.exists("granted/stop"):
        pass
threads = [threading.Thread(target=work) for _ in range(16)]
for thread in threads:
    thread.start()
open("granted/floods", "w").close()
for thread in threads:
    thread.join()
"""


async def test_a_program_that_floods_the_observer_holds_up_no_other_one(make: Maker, tmp_path: Path) -> None:
    flooding, other = tmp_path / "flooding", tmp_path / "other"
    flooding.mkdir()
    other.mkdir()
    ended: list[ChildExit] = []

    async def flood() -> None:
        ended.append(await run(make, flooding, FLOODS))

    async with anyio.create_task_group() as group:
        group.start_soon(flood)
        await until((flooding / "granted" / "floods").exists)
        seen = observer_id()
        done = await run(make, other, "for n in range(300):\n  try: open(f'{n % 9}')\n  except OSError: pass")
        assert done.exit_code == 0, done.stderr_tail
        assert {f"r{other}/{number}" for number in range(9)} <= set(notes(done))
        assert ended == []
        # One process for both, which starts none.
        assert (observer_id(), children_of(seen)) == (seen, set())
        (flooding / "granted" / "stop").touch()
    assert (ended[0].exit_code, ended[0].observer_lost) == (0, False)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every process")
async def test_another_process_of_the_user_reads_nothing_of_the_observer(make: Maker, tmp_path: Path) -> None:
    """Its memory holds what it has read in that of programs."""
    await run(make, tmp_path, "pass")
    with pytest.raises(PermissionError):
        os.listdir(f"/proc/{observer_id()}/fd")
    with pytest.raises(PermissionError):
        os.open(f"/proc/{observer_id()}/mem", os.O_RDONLY)
