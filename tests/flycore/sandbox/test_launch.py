"""What is handed to a confined program, and what is not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flycore.model.enums import Anchor, PathState
from flycore.model.program import ResolvedProgram
from flycore.sandbox import landlock
from flycore.sandbox.confinement import Confinement, Mount, read_system_layout
from flycore.sandbox.launch import Launch, degraded_launch, enforced_launch
from flycore.sandbox.runtime_roots import runtime_roots
from kits.programs import needs, needs_bubblewrap

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
) -> tuple[Launch, subprocess.CompletedProcess[str]]:
    mounts = (*(Mount(root) for root in roots), Mount(str(folder), writable=True))
    confinement = Confinement(mounts=mounts, cwd=str(folder))
    launch = make(confinement, read_system_layout(), {"PATH": "/usr/bin:/bin", **SECRET}, command)
    try:
        ran = subprocess.run(
            launch.argv, env=dict(launch.environment), pass_fds=launch.descriptors,
            input=stdin, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        launch.close()
    return launch, ran


def test_the_program_has_its_environment_and_its_folder(make: Maker, tmp_path: Path) -> None:
    _, ran = launched(make, tmp_path, "/bin/sh", "-c", 'pwd; echo "$API_KEY"; echo x > written')
    assert ran.stderr == ""
    assert ran.stdout.split() == [str(tmp_path), SECRET["API_KEY"]]
    assert (tmp_path / "written").read_text() == "x\n"


def test_a_secret_stands_on_no_command_line_and_in_no_outer_environment(make: Maker, tmp_path: Path) -> None:
    launch, _ = launched(make, tmp_path, "/bin/true")
    shown = " ".join(launch.argv) + json.dumps(dict(launch.environment)) + repr(launch)
    assert SECRET["API_KEY"] not in shown


def test_the_exit_code_is_that_of_the_program(make: Maker, tmp_path: Path) -> None:
    launch, ran = launched(make, tmp_path, "/bin/sh", "-c", "exit 3")
    assert ran.returncode == 3
    if launch.status is not None:
        with open(launch.status, encoding="utf-8") as report:
            assert [json.loads(line) for line in report][-1] == {"exit-code": 3}


def test_no_descriptor_is_left(tmp_path: Path) -> None:
    needs_bubblewrap()
    before = open_descriptors()
    launch, _ = launched(enforced_launch, tmp_path, "/bin/true")
    assert launch.status is not None
    os.close(launch.status)
    assert open_descriptors() == before


def test_where_a_mount_is_missing_nothing_is_left_open(tmp_path: Path) -> None:
    before = open_descriptors()
    confinement = Confinement(mounts=(Mount(str(tmp_path)), Mount(str(tmp_path / "gone"))), cwd="/")
    with pytest.raises(FileNotFoundError):
        enforced_launch(confinement, read_system_layout(), {}, ("/bin/true",))
    assert open_descriptors() == before


def test_a_program_that_cannot_be_confined_does_not_run(tmp_path: Path) -> None:
    ran_file = tmp_path / "ran"
    confinement = Confinement(mounts=(Mount(str(tmp_path), writable=True),), cwd=str(tmp_path / "gone"))
    launch = degraded_launch(confinement, read_system_layout(), {}, ("/bin/sh", "-c", f"echo x > {ran_file}"))
    ran = subprocess.run(
        launch.argv, env=dict(launch.environment), pass_fds=launch.descriptors,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    launch.close()
    assert (ran.returncode, ran_file.exists()) == (125, False)
    assert "could not be confined" in ran.stderr


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
    assert ran.returncode == 0, ran.stderr


def test_a_bundled_sidecar_answers(make: Maker, tmp_path: Path) -> None:
    command = (str(Path(sys.executable).parent / "flytui-sidecar"), "mock.echo")
    request = {"tool": "mock.echo", "input": {"message": "hi"}, "projectDir": str(tmp_path)}
    _, ran = launched(
        make, tmp_path, *command, roots=runtime_roots(program(*command)), stdin=json.dumps(request) + "\n"
    )
    assert json.loads(ran.stdout)["ok"] is True, ran.stdout + ran.stderr
