"""Calls in the sandbox of this machine: what a tool reaches, at which level it ran, and what happens where it
cannot be confined."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from PIL import Image, ImageDraw

from flycore.kernel.kernel import Kernel
from flycore.model.approval import Ask
from flycore.model.call import ToolResult
from flycore.model.enums import Code, Effective, Level, ReasonCode, Status
from flycore.sandbox import bubblewrap, landlock
from flycore.sandbox.detection import INSTALL_BUBBLEWRAP, detection
from flysafe.procfs import environment_value, process_table
from kits.kernel import (
    Root,
    answered_call,
    approve,
    approve_if_asked,
    kernel_of,
    permitted_call,
    request,
    tool,
    until,
    waiting_ask,
)
from kits.programs import needs, needs_bubblewrap, needs_landlock

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("tried_anew")]

TRIES = """#!/usr/bin/env python3
import json, os, resource, socket, sys
asked = json.loads(sys.stdin.readline())
given, project = asked["input"], asked["projectDir"]
found = {}
def tried(name, what):
    try:
        what()
        found[name] = "open"
    except OSError:
        found[name] = "shut"
def write(path):
    with open(path, "w") as file:
        file.write("x")
tried("declared", lambda: write(project + "/out/file"))
tried("artifact", lambda: write(asked["artifactDir"] + "/file"))
tried("temporary", lambda: write(os.environ.get("TMPDIR", "/tmp") + "/file"))
tried("docs", lambda: os.listdir(project + "/docs"))
tried("undeclared", lambda: write(project + "/file"))
tried("unread", lambda: open(project + "/private/file"))
tried("home", lambda: open(os.environ["HOME"] + "/secret"))
tried("itself", lambda: open(__file__, "a"))
tried("kernel", lambda: open(f"/proc/{given['kernel']}/environ", "rb").read(1))
tried("network", lambda: socket.create_connection(("127.0.0.1", given["port"])).close())
found["files"] = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
found["descriptors"] = len(os.listdir("/proc/self/fd")) - 1
found["path"] = __file__
print(json.dumps({"ok": True, **found}))
"""
MARK = """#!/bin/sh
read -r request
echo x >> out/marks
printf '{"ok": true}\\n'
"""
LATE = """#!/bin/sh
read -r request
out=${request#*'"out": "'}
out=${out%%'"'*}
echo x > "$out/began"
while [ ! -e "$out/go" ]; do sleep 0.02; done
. "${0%/*}/part.sh"
printf '{"ok": true, "part": "%s"}\\n' "$part"
"""
FILLS = """#!/usr/bin/env python3
import errno, json, multiprocessing, os, pty, sys
granted = json.loads(sys.stdin.readline())["artifactDir"]
MOST = 96 << 20
BLOCK = bytes(1 << 20)
kinds, found, written = {}, {}, 0
with open("/proc/self/mounts") as mounts:
    for line in mounts:
        kinds[line.split()[1]] = line.split()[2]
in_memory = [path for path, kind in kinds.items() if kind in ("tmpfs", "ramfs", "mqueue", "devpts", "proc")]
folders = dict.fromkeys(("/dev", "/dev/shm", "/dev/pts", "/tmp", "/run", "/var/tmp", "/"))
for top in (path for path in in_memory if os.path.isdir(path) and kinds[path] != "proc"):
    device = os.stat(top).st_dev
    for folder, names, _ in os.walk(top):
        names[:] = [name for name in names if os.lstat(os.path.join(folder, name)).st_dev == device]
        folders.update({} if folder.startswith(granted) else {folder: None})
for folder in folders:
    try:
        with open(f"{folder}/filled", "wb", buffering=0) as file:
            while written < MOST:
                written += file.write(BLOCK)
        found[folder] = "open"
    except OSError as fault:
        found[folder] = errno.errorcode[fault.errno]
for folder in folders:
    if os.path.exists(f"{folder}/filled"):
        os.unlink(f"{folder}/filled")
with multiprocessing.Semaphore(), open("/dev/null", "w") as null:
    null.write("x")
works = [multiprocessing.Array("i", 1000)[999] == 0, len(open("/dev/urandom", "rb").read(8)) == 8]
works += [os.isatty(pty.openpty()[0]), os.path.exists("/dev/tty")]
try:
    made = os.mknod("/dev/made") or "made"
except OSError as fault:
    made = errno.errorcode[fault.errno]
print(json.dumps({"ok": True, "found": found, "written": written, "works": works, "made": made}))
"""
WRITES = {"fs": {"write": ["out"]}}
ALLOW = {"tool": "*", "decision": "allow", "because": "test"}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def own_bwrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A bwrap that the test can break: a link to the real one."""
    needs_bubblewrap()
    link = tmp_path / "bwrap"
    link.symlink_to(bubblewrap.PROGRAM)
    monkeypatch.setattr(bubblewrap, "PROGRAM", str(link))
    return link


def broken(link: Path) -> None:
    """Break it as an update that failed does: it is there, and starts nothing."""
    script = link.with_name("broken")
    script.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    script.chmod(0o755)
    os.replace(script, link)


def marks(root: Root) -> int:
    """How often the program of `MARK` has run."""
    path = root.folder / "out" / "marks"
    return len(path.read_text().splitlines()) if path.exists() else 0


def levels(root: Root, event: str = "TOOL_EXECUTED") -> list[str]:
    """The level in each such line of the log."""
    return [line["level"] for line in root.audit() if line["event"] == event]


def is_of(pid: int, call_id: str) -> bool:
    """Whether the process was started for that call."""
    return environment_value(pid, "FLYTUI_CALL_ID") == call_id


def code_of(result: ToolResult) -> str:
    return result.error.code if result.error is not None else ""


async def tries(kernel: Kernel, name: str, port: int) -> dict[str, Any]:
    """The output of a program of `TRIES`."""
    result = await permitted_call(kernel, name, {"kernel": os.getpid(), "port": port})
    assert isinstance(result.output, dict), (result.error, result.stderr_tail)
    return result.output


async def test_a_tool_reaches_what_its_entry_declares_and_nothing_else(root: Root, level: Level) -> None:
    for folder in ("docs", "private"):
        (root.folder / folder).mkdir()
        (root.folder / folder / "file").write_text("x")
    (root.base / "secret").write_text("x")
    files = {"read": ["docs"], "write": ["out"]}
    own = root.sidecar("shut", TRIES, permissions={"fs": files}, limits={"openFiles": 99})
    root.sidecar("open", TRIES, permissions={"fs": files, "network": True})
    root.policy(ALLOW)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        async with kernel_of(root) as kernel:
            shut = await tries(kernel, "shut.do", port)
            opened = await tries(kernel, "open.do", port)
    granted = dict.fromkeys(("declared", "artifact", "temporary", "docs"), "open")
    refused = dict.fromkeys(("undeclared", "unread", "home", "itself", "kernel"), "shut")
    path = shut.pop("path")
    assert shut == {**granted, **refused, "network": "shut", "files": 99, "descriptors": 3}
    assert {name: opened[name] for name in (*granted, *refused)} == {**granted, **refused}
    assert opened["network"] == "open"
    # bubblewrap shows the sealed copy in the program's own place; Landlock can only run it where it lies.
    assert (path == str(own)) is (level is Level.ENFORCED)
    assert (root.folder / "out" / "file").read_text() == "x"
    assert not (root.folder / "file").exists()
    assert levels(root) == levels(root, "TOOL_STARTED") == [level.value] * 2


async def test_a_bundled_tool_makes_its_file_in_a_folder_that_is_all_it_may_reach(
    root: Root, level: Level
) -> None:
    (root.folder / "data").mkdir()
    (root.folder / "data" / "a.json").write_text('[{"a": 1}]')
    files = {"read": ["data"], "write": ["out"]}
    entry = {"command": "flytui-sidecar", "args": ["utility.local"], "tools": [tool("data.convert")]}
    root.sidecars["files"] = {**entry, "permissions": {"fs": files}}
    root.write()
    given = {"from": "json", "to": "csv", "path": "data/a.json", "outputPath": "out/new/a.csv"}
    async with kernel_of(root) as kernel:
        await until(lambda: kernel.catalog().capability("data.convert"))
        result = await answered_call(kernel, partial(approve, kernel), "data.convert", given)
    assert result.status is Status.SUCCESS, result.error
    assert levels(root) == [level.value]
    assert (root.folder / "out" / "new" / "a.csv").read_text() == "a\n1\n"


async def test_the_level_is_on_the_card_and_in_the_result(root: Root, level: Level) -> None:
    root.sidecar("it", MARK, permissions=WRITES)
    async with kernel_of(root) as kernel:
        view = kernel.catalog().sidecar("it")
        assert view is not None
        assert view.stability.evidence.sandbox is not None
        assert view.stability.evidence.sandbox.level is level

        async def look_then_approve(ask: Ask) -> None:
            assert (ask.request.level, ask.request.subject.level) == (level, level)
            assert all(row.enforced for row in ask.request.reach)
            await approve(kernel, ask)

        result = await answered_call(kernel, look_then_approve, "it.do")
    assert (result.status, result.sandbox, marks(root)) == (Status.SUCCESS, level, 1)


async def test_an_entry_without_permissions_runs_with_none_granted(root: Root, level: Level) -> None:
    for folder in ("docs", "private", "out"):
        (root.folder / folder).mkdir()
        (root.folder / folder / "file").write_text("x")
    (root.base / "secret").write_text("x")
    root.sidecar("none", TRIES, permissions={})
    root.sidecar("bare", TRIES)
    del root.sidecars["bare"]["permissions"]
    root.write()
    root.policy(ALLOW)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        async with kernel_of(root) as kernel:
            none, bare = await tries(kernel, "none.do", port), await tries(kernel, "bare.do", port)
            reports = [view.stability.evidence.sandbox for view in kernel.catalog().sidecars]
    assert [name for name, found in bare.items() if found == "open"] == ["artifact", "temporary"]
    assert {**bare, "path": ""} == {**none, "path": ""}
    assert reports[0] == reports[1]
    assert levels(root) == [level.value] * 2


async def test_an_input_names_a_folder_in_the_project_only(root: Root, level: Level) -> None:
    script = """#!/bin/sh
read -r request
echo x > made/by/it/file && printf '{"ok": true}\\n'
"""
    root.sidecar("it", script, permissions={"fs": {"write": ["${input.dir}"]}})
    outside = root.base / "outside"
    outside.mkdir()
    (root.folder / "link").symlink_to(outside)
    root.policy(ALLOW)
    async with kernel_of(root) as kernel:
        inside = await permitted_call(kernel, "it.do", {"dir": "made/by/it"})
        assert (inside.status, inside.sandbox) == (Status.SUCCESS, level), inside.error
        for path in (str(outside), "../outside", "link", "link/below"):
            refused = await kernel.call(request(kernel, "it.do", {"dir": path}))
            assert (refused.status, code_of(refused)) == (Status.FAILED, ReasonCode.PERMISSION_MISSING)
            assert refused.error is not None
            assert refused.error.details["path"]
    assert (root.folder / "made/by/it/file").read_text() == "x\n"
    assert list(outside.iterdir()) == []


async def test_the_sealed_package_is_what_the_program_sees(root: Root, level: Level) -> None:
    """A part that is loaded late is the approved one, whatever lies in its place by then."""
    package = root.folder / "tools" / "packages" / "it"
    package.mkdir(parents=True)
    (package / "run").write_text(LATE)
    (package / "run").chmod(0o755)
    (package / "part.sh").write_text("part=approved\n")
    permissions = {"fs": {"read": ["."], "write": ["out"]}}
    command = "./tools/packages/it/run"
    root.sidecars["it"] = {
        "command": command,
        "cwd": "empty",
        "tools": [tool("it.do")],
        "permissions": permissions,
    }
    root.write()
    root.policy(ALLOW)
    results: list[ToolResult] = []
    out = root.folder / "out"
    async with kernel_of(root) as kernel:

        async def call() -> None:
            results.append(await permitted_call(kernel, "it.do", {"out": str(out)}))

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await until((out / "began").exists)
            (package / "part.sh").write_text("part=changed\n")
            (out / "go").touch()
    (result,) = results
    assert (result.output, result.sandbox) == ({"part": "approved"}, level), result.stderr_tail


@pytest.mark.parametrize("how", ["broken", "gone"])
async def test_where_bwrap_breaks_between_two_calls_nothing_runs_unconfined(
    root: Root, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    needs_landlock()
    bwrap = own_bwrap(monkeypatch, tmp_path)
    root.sidecar("it", MARK, permissions=WRITES)
    root.policy(ALLOW)
    async with kernel_of(root) as kernel:
        assert (await permitted_call(kernel, "it.do")).sandbox is Level.ENFORCED
        broken(bwrap) if how == "broken" else bwrap.unlink()
        result = await permitted_call(kernel, "it.do")
        assert (result.status, code_of(result)) == (Status.UNAVAILABLE, ReasonCode.SANDBOX_UNAVAILABLE)
        assert (result.sandbox, marks(root)) == (Level.DENIED, 1)

        def level_now() -> Level | None:
            view = kernel.catalog().sidecar("it")
            report = view.stability.evidence.sandbox if view is not None else None
            return report.level if report is not None else None

        await until(lambda: level_now() is Level.DEGRADED)
        assert (await permitted_call(kernel, "it.do")).sandbox is Level.DEGRADED
    assert marks(root) == 2
    assert levels(root) == ["enforced", "denied", "degraded"]


async def test_an_approval_at_one_level_is_void_at_another(
    root: Root, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    needs_landlock()
    bwrap = own_bwrap(monkeypatch, tmp_path)
    root.sidecar("it", MARK, permissions=WRITES)
    async with kernel_of(root) as kernel:

        async def fall_then_approve(ask: Ask) -> None:
            assert ask.request.level is Level.ENFORCED
            bwrap.unlink()
            detection.expire()
            await kernel._refresher.refresh()
            await approve(kernel, ask)
            again = await waiting_ask(kernel)
            assert again.request.level is Level.DEGRADED
            assert again.request.difference[:2] == ('- /level: "enforced"', '+ /level: "degraded"')
            assert marks(root) == 0
            await approve(kernel, again)

        result = await answered_call(kernel, fall_then_approve, "it.do")
    assert (result.status, result.sandbox, marks(root)) == (Status.SUCCESS, Level.DEGRADED, 1)


async def test_where_nothing_works_a_tool_is_unavailable_until_its_person_lowers_its_minimum(
    root: Root, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bubblewrap, "PROGRAM", str(tmp_path / "no-bwrap"))
    monkeypatch.setattr(landlock, "version", lambda: 0)
    probe = {"mode": "request"}
    root.sidecar("it", MARK, tool("it.one"), tool("it.two"), permissions=WRITES, probe=probe)
    (root.folder / "out").mkdir()
    root.policy(ALLOW)
    async with kernel_of(root) as kernel:
        view = kernel.catalog().capability("it.one")
        assert view is not None
        reason = view.stability.reasons[0]
        assert (view.stability.effective, reason.code) == (
            Effective.UNAVAILABLE,
            ReasonCode.SANDBOX_UNAVAILABLE,
        )
        assert INSTALL_BUBBLEWRAP in reason.remedy
        refused = await permitted_call(kernel, "it.one")
        assert (refused.status, code_of(refused)) == (Status.UNAVAILABLE, ReasonCode.SANDBOX_UNAVAILABLE)
        kernel.probe("it")
        assert marks(root) == 0
        settings = root.places.config_dir / "config.jsonc"
        settings.write_text(json.dumps({"sandbox": {"minimum": {"it.one": "none"}}}))
        await until(lambda: usable(kernel, "it.one"))
        assert not usable(kernel, "it.two")
        allowed = await permitted_call(kernel, "it.one")
        assert (allowed.status, allowed.sandbox) == (Status.SUCCESS, Level.NONE)
        assert (await permitted_call(kernel, "it.two")).status is Status.UNAVAILABLE


async def test_a_person_can_demand_more_than_this_machine_has(
    root: Root, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    needs_landlock()
    monkeypatch.setattr(bubblewrap, "PROGRAM", str(tmp_path / "no-bwrap"))
    root.sidecar("it", MARK, permissions=WRITES)
    root.policy(ALLOW)
    root.places.config_dir.mkdir(parents=True, exist_ok=True)
    wanted = {"sandbox": {"minimum": {"it.do": "enforced"}}}
    (root.places.config_dir / "config.jsonc").write_text(json.dumps(wanted))
    async with kernel_of(root) as kernel:
        refused = await permitted_call(kernel, "it.do")
    assert (refused.status, code_of(refused)) == (Status.UNAVAILABLE, ReasonCode.SANDBOX_UNAVAILABLE)
    assert refused.error is not None
    assert INSTALL_BUBBLEWRAP in refused.error.hint
    assert marks(root) == 0


async def test_a_probe_is_confined_as_a_call_is(root: Root, level: Level) -> None:
    script = """#!/bin/sh
read -r request
echo x > out/probed
echo x 2>/dev/null > probed && printf '{"ok": false, "error": "not confined"}\\n' && exit
printf '{"ok": true}\\n'
"""
    root.sidecar("it", script, permissions=WRITES, probe={"mode": "request", "timeoutMs": 30000})
    async with kernel_of(root) as kernel:
        await until((root.folder / "out" / "probed").exists)

        def probed() -> Effective | None:
            view = kernel.catalog().sidecar("it")
            return view.stability.effective if view and view.stability.evidence.probe else None

        assert await until(probed) is Effective.AVAILABLE
    assert not (root.folder / "probed").exists()


async def test_a_tool_that_is_ended_has_its_time_to_leave(root: Root, level: Level) -> None:
    script = """#!/bin/sh
trap 'echo left > out/left; exit 0' TERM
read -r request
sleep 600 &
echo x > out/began
wait
"""
    root.sidecar("it", script, permissions=WRITES)
    root.policy(ALLOW)
    out = root.folder / "out"
    results: list[ToolResult] = []
    async with kernel_of(root) as kernel:
        asked = request(kernel, "it.do")

        async def call() -> None:
            results.append(await kernel.call(asked))

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await approve_if_asked(kernel, asked, (out / "began").exists)
            await until((out / "began").exists)
            assert kernel.cancel(asked.call_id)
    assert code_of(results[0]) == Code.CANCELLED
    assert (out / "left").read_text() == "left\n"
    assert not [
        one for one in process_table().values() if one.name == "sleep" and is_of(one.pid, asked.call_id)
    ]


async def test_files_in_memory_stay_within_the_limit_of_memory(root: Root) -> None:
    needs_bubblewrap()
    limit = 64 << 20
    root.sidecar("it", FILLS, permissions={}, limits={"memoryBytes": limit * 16})
    root.sidecar("small", FILLS, permissions={}, limits={"memoryBytes": limit})
    root.policy(ALLOW)
    async with kernel_of(root) as kernel:
        large = await permitted_call(kernel, "it.do")
        small = await permitted_call(kernel, "small.do")
    assert isinstance(large.output, dict), (large.error, large.stderr_tail)
    assert isinstance(small.output, dict), (small.error, small.stderr_tail)
    # The control: with a limit that is large enough the program does write as much.
    assert "open" in large.output["found"].values()
    found = small.output["found"]
    assert {found["/tmp"], found["/dev/shm"]} == {"ENOSPC"}
    assert set(found.values()) <= {"ENOSPC", "EROFS", "ENOENT", "EACCES"}
    assert found["/dev"] == found["/"] == small.output["made"] == "EROFS"
    assert small.output["written"] <= limit
    assert small.output["works"] == large.output["works"] == [True] * 4


async def test_an_exit_code_is_the_program_s_own(root: Root, level: Level) -> None:
    exits = "#!/bin/sh\nread -r request\nexit 7\n"
    dies = "#!/bin/sh\nread -r request\nkill -9 $$\n"
    root.sidecar("exits", exits, permissions={})
    root.sidecar("dies", dies, permissions={})
    root.policy(ALLOW)
    async with kernel_of(root) as kernel:
        exited = await permitted_call(kernel, "exits.do")
        died = await permitted_call(kernel, "dies.do")
    assert (exited.exit_code, code_of(exited), exited.sandbox) == (7, Code.EXIT, level)
    assert (died.exit_code, code_of(died), died.sandbox) == (-9, Code.EXIT, level)


async def test_the_bundled_tools_work_confined(root: Root, level: Level) -> None:
    """As the project's own registry declares them."""
    needs("tesseract")
    registry = Path(__file__).parents[3] / "tools" / "external.tools.jsonc"
    shutil.copyfile(registry, root.folder / "tools" / registry.name)
    root.policy(ALLOW)
    (root.folder / "a.json").write_text('{"a": 1}')
    picture = Image.new("RGB", (400, 100), "white")
    ImageDraw.Draw(picture).text((20, 20), "HELLO", fill="black", font_size=40)
    picture.save(root.folder / "a.png")
    calls: dict[str, tuple[dict[str, Any], str]] = {
        "file.hash": ({"path": "a.json"}, "digest"),
        "archive.create": ({"paths": ["a.json"], "output": "a.zip"}, "entries"),
        "archive.extract": ({"archive": "a.zip", "outputDir": "made"}, "entries"),
        "data.convert": ({"path": "a.json", "from": "json", "to": "yaml"}, "output"),
        "vision.ocr": ({"path": "a.png"}, "text"),
    }
    async with kernel_of(root) as kernel:
        for name, (given, key) in calls.items():
            await until(partial(usable, kernel, name))
            result = await permitted_call(kernel, name, given)
            assert (result.status, result.sandbox) == (Status.SUCCESS, level), (name, result.error)
            assert isinstance(result.output, dict)
            assert key in result.output
    assert (root.folder / "made" / "a.json").read_text() == '{"a": 1}'


def usable(kernel: Kernel, name: str) -> bool:
    """Whether the tool can be called now."""
    found = kernel.catalog().capability(name)
    return found is not None and found.stability.effective.usable


KERNEL = """
import sys
from pathlib import Path
import anyio
from kits.kernel import Root, kernel_of, request

async def main():
    root = Root(Path(sys.argv[1]))
    script = "#!/bin/sh\\nread -r request\\nsetsid sleep 4321.5 &\\necho x > out/began\\nwait\\n"
    root.sidecar("it", script, permissions={"fs": {"write": ["out"]}})
    root.policy({"tool": "*", "decision": "allow", "because": "test"})
    async with kernel_of(root) as kernel:
        await kernel.call(request(kernel, "it.do"))

anyio.run(main)
"""


async def test_nothing_of_an_enforced_call_outlives_a_killed_kernel(tmp_path: Path) -> None:
    """A process in a session of its own, whose kernel has no moment to end it."""
    needs_bubblewrap()
    base = tmp_path / "base"
    kernel = kernel_process(base)
    try:
        await until((base / "project" / "out" / "began").exists)
        await until(lambda: sleepers(base))
    finally:
        kernel.kill()
        kernel.wait()
    await until(lambda: not sleepers(base))


def kernel_process(base: Path) -> subprocess.Popen[bytes]:
    """A process that runs `KERNEL` on a root there."""
    paths = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, "-c", KERNEL, str(base)], env={**os.environ, "PYTHONPATH": paths}
    )


def sleepers(base: Path) -> list[int]:
    """The processes that the tool of that kernel has left asleep."""
    asleep = [one.pid for one in process_table().values() if one.name == "sleep" and not one.ended]
    return [pid for pid in asleep if environment_value(pid, "HOME") == str(base)]
