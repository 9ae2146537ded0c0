"""What is handed to a confined program, and what is not."""

from __future__ import annotations

import json
import marshal
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flycore.model.enums import Anchor, Level, PathState
from flycore.model.program import ConfinementReport, ResolvedProgram
from flycore.runners.child.run import ChildExit
from flycore.runners.child.spawn import NOT_CONFINED
from flycore.sandbox import landlock, restriction_program
from flycore.sandbox.confinement import Confinement, IfMissing, Mount, read_system_layout
from flycore.sandbox.launch import Launch, NulInLaunch, degraded_launch, enforced_launch, read_report
from flycore.sandbox.runtime_roots import runtime_roots
from flycore.sandbox.trial_process import run_trial
from flysafe.beneath import OutsideAnchor
from kits.programs import needs, needs_bubblewrap
from kits.sandbox_levels import needs_level, run_launch
from kits.tables import each_row

SECRET = {"API_KEY": "secret-of-the-tool"}
Maker = Callable[..., Launch]


@pytest.fixture(params=[enforced_launch, degraded_launch], ids=["enforced", "degraded"])
def make(request: pytest.FixtureRequest) -> Maker:
    """Each way to launch, where this machine has what it needs."""
    if request.param is enforced_launch:
        needs_bubblewrap()
    elif not landlock.version():
        pytest.skip("this kernel has no Landlock")
    maker: Maker = request.param
    return maker


def open_descriptors() -> set[str]:
    """The numbers of this process's descriptors."""
    return set(os.listdir("/proc/self/fd"))


def program(*argv: str) -> ResolvedProgram:
    """A program on PATH, as the registry resolves it."""
    return ResolvedProgram(
        state=PathState.RESOLVED,
        mode="path",
        base=Anchor.APP,
        declared=argv[0],
        path=os.path.realpath(argv[0]),
        argv=argv,
    )


def launched(
    make: Maker, folder: Path, *command: str, roots: tuple[str, ...] = (), stdin: str = ""
) -> tuple[Launch, ChildExit]:
    """A launch, and how its program ended that was started as that of a call is."""
    mounts = (*(Mount(root) for root in roots), Mount(str(folder), writable=True))
    confinement = Confinement(mounts=mounts, cwd=str(folder))
    launch = make(confinement, read_system_layout(), {"PATH": "/usr/bin:/bin", **SECRET}, command)
    return launch, run_launch(launch, stdin)


def report_of(ended: ChildExit) -> ConfinementReport:
    """What was reported of the program."""
    assert ended.confinement is not None, ended.spawn_error
    return ended.confinement


def test_the_program_has_its_environment_and_its_folder(make: Maker, tmp_path: Path) -> None:
    _, ran = launched(make, tmp_path, "/bin/sh", "-c", 'pwd; echo "$API_KEY"; echo x > written')
    assert ran.stderr_tail == b""
    assert ran.stdout.decode().split() == [str(tmp_path), SECRET["API_KEY"]]
    assert (tmp_path / "written").read_text() == "x\n"


def test_a_secret_stands_on_no_command_line_and_in_no_outer_environment(make: Maker, tmp_path: Path) -> None:
    launch, _ = launched(make, tmp_path, "/bin/true")
    shown = " ".join(launch.argv) + repr(launch)
    if launch.restriction is None:  # else there is no other process than the program itself
        shown += json.dumps(dict(launch.environment))
    assert SECRET["API_KEY"] not in shown


def test_the_exit_code_is_that_of_the_program(make: Maker, tmp_path: Path) -> None:
    launch, ran = launched(make, tmp_path, "/bin/sh", "-c", "exit 3")
    assert ran.exit_code == 3
    report = report_of(ran)
    assert report.confined
    # Under bubblewrap the program is another process than the one that was started.
    assert report.exit_code == (3 if make is enforced_launch else None)
    assert bool(report.first_process) is launch.keeps_watch is (make is enforced_launch)


def test_a_signal_that_ends_the_program_is_told(make: Maker, tmp_path: Path) -> None:
    _, ran = launched(make, tmp_path, "/bin/sh", "-c", "kill -9 $$")
    assert report_of(ran).confined
    assert ran.exit_code == -9


@each_row(
    ("written", "report"),
    [
        (b"", ConfinementReport(confined=False)),
        (
            b'{ "child-pid": 7, "net-namespace": 1 }\n',
            ConfinementReport(confined=False, started=True, first_process=7),
        ),
        (
            b'{ "child-pid": 7 }\n{ "exit-code": 0 }\n',
            ConfinementReport(confined=True, started=True, exit_code=0, first_process=7),
        ),
        (
            b'{ "child-pid": 7 }\n{ "exit-code": 139 }\n',
            ConfinementReport(confined=True, started=True, exit_code=-11, first_process=7),
        ),
        (b'{"confined": true}\n', ConfinementReport(confined=True)),
        (restriction_program.CONFINED, ConfinementReport(confined=True)),
        (b'{"confined": tr', ConfinementReport(confined=False)),
        (b"[1]\nnull\n", ConfinementReport(confined=False)),
    ],
)
def test_the_report_says_whether_a_program_ran_confined(written: bytes, report: ConfinementReport) -> None:
    assert read_report(written) == report


def test_a_program_that_is_not_there_has_not_run(make: Maker, tmp_path: Path) -> None:
    launched(make, tmp_path, "/bin/true")  # the first start of a process opens what all later ones use
    before = open_descriptors()
    _, ran = launched(make, tmp_path, str(tmp_path / "nothing"))
    if make is enforced_launch:
        assert not report_of(ran).confined
        assert ran.exit_code != 0
    else:
        assert ran.spawn_error is not None
        assert ran.spawn_error.fault == NOT_CONFINED
        assert str(tmp_path / "nothing") in ran.spawn_error.message
    assert open_descriptors() == before


def test_the_program_has_no_descriptor_of_the_confinement(make: Maker, tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
    roots = tuple(str(tmp_path / name) for name in "abc")
    _, ran = launched(make, tmp_path, "/bin/ls", "/proc/self/fd", roots=roots)
    assert ran.stdout.split() == [b"0", b"1", b"2", b"3"], (
        ran.stderr_tail
    )  # the last one is the listing itself


def test_a_granted_link_leads_to_nothing_outside(make: Maker, tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    for folder in (project, outside):
        folder.mkdir()
    (project / "link").symlink_to(outside)
    before = open_descriptors()
    for path in ("link", "link/below"):
        mount = Mount(str(project / path), True, str(project), if_missing=IfMissing.MAKE_FOLDER)
        with pytest.raises(OutsideAnchor):
            make(Confinement(mounts=(mount,), cwd="/"), read_system_layout(), {}, ("/bin/true",))
    assert list(outside.iterdir()) == []
    assert open_descriptors() == before


def test_what_is_missing_is_made_or_left_out_as_it_says(make: Maker, tmp_path: Path) -> None:
    anchor = str(tmp_path)
    mounts = (
        Mount(str(tmp_path / "new" / "deep"), True, anchor, if_missing=IfMissing.MAKE_FOLDER),
        Mount(str(tmp_path / "absent"), False, anchor, if_missing=IfMissing.LEAVE_OUT),
        Mount(str(tmp_path / "gone"), if_missing=IfMissing.LEAVE_OUT),
    )
    command = ("/bin/sh", "-c", f"echo x > {tmp_path}/new/deep/file")
    made = make(Confinement(mounts=mounts, cwd="/"), read_system_layout(), {"PATH": "/usr/bin:/bin"}, command)
    ran = run_launch(made)
    assert report_of(ran).confined, ran.stderr_tail
    assert (tmp_path / "new" / "deep" / "file").read_text() == "x\n"
    assert not (tmp_path / "absent").exists()


def test_a_copy_is_seen_in_place_of_what_it_is_a_copy_of(tmp_path: Path) -> None:
    needs_bubblewrap()
    for name, text in (("original", "changed"), ("copy", "sealed")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(text)
    original = tmp_path / "original"
    mounts = (Mount(str(tmp_path)), Mount(str(original), source=str(tmp_path / "copy")))
    confinement = Confinement(mounts=mounts, cwd="/")
    made = enforced_launch(confinement, read_system_layout(), {}, ("/bin/cat", str(original / "file")))
    ran = run_launch(made)
    assert report_of(ran).confined
    assert ran.stdout == b"sealed"


def test_no_descriptor_is_left(make: Maker, tmp_path: Path) -> None:
    before = open_descriptors()
    for command in ("/bin/true", "/bin/false"):
        launched(make, tmp_path, command)
    assert open_descriptors() == before


def test_where_a_mount_is_missing_nothing_is_left_open(make: Maker, tmp_path: Path) -> None:
    before = open_descriptors()
    confinement = Confinement(mounts=(Mount(str(tmp_path)), Mount(str(tmp_path / "gone"))), cwd="/")
    with pytest.raises(FileNotFoundError):
        make(confinement, read_system_layout(), {}, ("/bin/true",))
    assert open_descriptors() == before


def refuse(step: str, order: tuple[Any, ...]) -> tuple[Any, ...]:
    """The order with a step that the system refuses."""
    ruleset, on_files, paths, opened, steps, status = order
    changed = {
        "ruleset": ((1 << 60, 0, 0), on_files, paths, opened, steps, status),
        "rule": (ruleset, on_files, paths, [(number, 1 << 60) for number, _ in opened], steps, status),
        "filter": (ruleset, on_files, paths, opened, b"\xff" * 8, status),
        "report": (ruleset, on_files, paths, opened, steps, 999),
    }
    return changed[step]


@pytest.mark.parametrize("step", ["ruleset", "rule", "filter", "report"])
def test_where_a_step_is_refused_the_program_does_not_run(tmp_path: Path, step: str) -> None:
    needs_level(Level.DEGRADED)
    before = open_descriptors()
    ran_file = tmp_path / "ran"
    confinement = Confinement(mounts=(Mount(str(tmp_path), writable=True),), cwd=str(tmp_path))
    launch = degraded_launch(confinement, read_system_layout(), {}, ("/bin/sh", "-c", f"echo x > {ran_file}"))
    assert launch.restriction is not None
    order = marshal.dumps(refuse(step, marshal.loads(launch.restriction.order)))
    ended = run_launch(replace(launch, restriction=msgspec.structs.replace(launch.restriction, order=order)))
    assert ended.spawn_error is not None
    assert (ended.spawn_error.fault, ran_file.exists()) == (NOT_CONFINED, False)
    assert open_descriptors() == before


@pytest.mark.parametrize(
    "content", [None, "raise RuntimeError", "def restrict(order): 1 / 0", "syntax error("]
)
def test_where_the_steps_cannot_be_taken_the_program_does_not_run(
    tmp_path: Path, content: str | None
) -> None:
    needs_level(Level.DEGRADED)
    ran_file, module = tmp_path / "ran", tmp_path / "module.py"
    if content is not None:
        module.write_text(content)
    confinement = Confinement(mounts=(Mount(str(tmp_path), writable=True),), cwd=str(tmp_path))
    launch = degraded_launch(confinement, read_system_layout(), {}, ("/bin/sh", "-c", f"echo x > {ran_file}"))
    assert launch.restriction is not None
    other = msgspec.structs.replace(launch.restriction, module=str(module))
    ended = run_launch(replace(launch, restriction=other))
    assert not ran_file.exists()
    assert ended.spawn_error is not None or not report_of(ended).confined
    # The launcher that was asked for it still serves others.
    _, good = launched(degraded_launch, tmp_path, "/bin/true")
    assert report_of(good).confined


def test_where_the_folder_is_missing_the_program_does_not_run(tmp_path: Path) -> None:
    needs_level(Level.DEGRADED)
    ran_file = tmp_path / "ran"
    confinement = Confinement(mounts=(Mount(str(tmp_path), writable=True),), cwd=str(tmp_path / "gone"))
    launch = degraded_launch(confinement, read_system_layout(), {}, ("/bin/sh", "-c", f"echo x > {ran_file}"))
    ended = run_launch(launch)
    assert ended.spawn_error is not None
    assert (ended.spawn_error.fault, ran_file.exists()) == (NOT_CONFINED, False)


def test_a_trial_takes_the_same_steps(make: Maker, tmp_path: Path) -> None:
    before = open_descriptors()
    script = "cat; ls / > /dev/null; ls /proc/self/fd | wc -l; grep -c NoNewPrivs:.1 /proc/self/status; pwd"
    confinement = Confinement(mounts=(Mount(str(tmp_path)),), cwd=str(tmp_path))
    launch = make(confinement, read_system_layout(), {"PATH": "/usr/bin:/bin"}, ("/bin/sh", "-c", script))
    ran = run_trial(launch, 60.0, b"in\n")
    assert ran.stdout.decode().split() == ["in", "4", "1", str(tmp_path)], ran.stderr
    assert open_descriptors() == before


def test_a_trial_that_cannot_be_confined_does_not_run(tmp_path: Path) -> None:
    needs_level(Level.DEGRADED)
    ran_file = tmp_path / "ran"
    confinement = Confinement(mounts=(Mount(str(tmp_path), writable=True),), cwd=str(tmp_path / "gone"))
    launch = degraded_launch(confinement, read_system_layout(), {}, ("/bin/sh", "-c", f"echo x > {ran_file}"))
    ran = run_trial(launch, 60.0)
    assert (ran.returncode, ran_file.exists()) == (restriction_program.NOT_CONFINED, False)
    assert b"could not be confined" in ran.stderr


def everyday(name: str) -> tuple[str, ...]:
    """The command of a program that people's tools are made of."""
    found = shutil.which(name)
    assert found is not None
    inline = {
        "node": ("-e", "require('os').userInfo(); console.log(require('crypto').randomUUID())"),
        "git": ("-c", "safe.directory=*", "init", "repository"),
        "espeak-ng": ("-w", "spoken.wav", "hello"),
        "tesseract": ("--list-langs",),
        "perl": ("-MFile::Temp", "-e", "print File::Temp->new(DIR => '.')"),
    }
    return (found, *inline[name])


@pytest.mark.parametrize("name", ["node", "git", "espeak-ng", "tesseract", "perl"])
def test_everyday_programs_work(make: Maker, name: str, tmp_path: Path) -> None:
    needs(name)
    command = everyday(name)
    _, ran = launched(make, tmp_path, *command, roots=runtime_roots(program(*command)))
    assert ran.exit_code == 0, ran.stderr_tail


def test_a_bundled_sidecar_answers(make: Maker, tmp_path: Path) -> None:
    command = (str(Path(sys.executable).parent / "flytui-sidecar"), "mock.echo")
    request = {"tool": "mock.echo", "input": {"message": "hi"}, "projectDir": str(tmp_path)}
    _, ran = launched(
        make, tmp_path, *command, roots=runtime_roots(program(*command)), stdin=json.dumps(request) + "\n"
    )
    assert json.loads(ran.stdout)["ok"] is True, ran.stdout + ran.stderr_tail


@pytest.mark.parametrize("where", ["argument", "variable", "name", "path"])
def test_a_nul_begins_no_option(make: Maker, tmp_path: Path, where: str) -> None:
    evil = "x\0--bind\0/\0/"
    confinement = Confinement(mounts=(Mount(evil if where == "path" else str(tmp_path)),), cwd="/")
    environment = {"A": evil} if where == "variable" else {evil: "1"} if where == "name" else {}
    before = open_descriptors()
    with pytest.raises(NulInLaunch):
        make(
            confinement,
            read_system_layout(),
            environment,
            ("/bin/true", evil if where == "argument" else "x"),
        )
    assert open_descriptors() == before
