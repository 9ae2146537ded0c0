"""The levels of the sandbox, each one held still: what is stronger than the wanted one counts as missing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import anyio
import pytest

from flycore.model.enums import Level
from flycore.runners.child.run import ChildExit, RunLimits, run_child
from flycore.runners.child.spawn import SpawnSpec
from flycore.sandbox import bubblewrap, landlock, seal_parts
from flycore.sandbox.confinement import Confinement, Mount, SystemLayout, read_system_layout
from flycore.sandbox.detection import detection
from flycore.sandbox.launch import Launch, degraded_launch, enforced_launch
from kits.command_line import Desk
from kits.programs import needs_bubblewrap

LEVELS = (Level.NONE, Level.DEGRADED, Level.ENFORCED)
NOWHERE = "/nonexistent/bwrap"
_PATCH = """
import sys
from flycore.sandbox import bubblewrap, landlock, seal_parts
if {by_rule!r}:
    seal_parts.AT_LEVEL.clear()
if {level!r} != "enforced":
    bubblewrap.PROGRAM, bubblewrap.packaged = {nowhere!r}, str
if {level!r} == "none":
    landlock.version = lambda: 0
"""
_COMMAND = """
from types import SimpleNamespace
from flycore.client import kernel_start
kernel_start.sys = SimpleNamespace(executable={program!r})
sys.argv[0] = "flytui"
from flytui.cli.main import main
sys.exit(main())
"""
_KERNEL = """
from flycore.client.kernel_program import main
sys.exit(main())
"""


def needs_level(level: Level) -> None:
    """Skip the test, loudly, where this machine does not have the level."""
    if level is Level.ENFORCED:
        needs_bubblewrap()
    elif level is Level.DEGRADED and not landlock.version():
        pytest.skip("NOT TESTED, this kernel has no Landlock")


def hold_level(level: Level, patch: pytest.MonkeyPatch, *, by_rule: bool = False) -> None:
    """Let this process have no stronger level than that one. With `by_rule` a rule allows a program there,
    too, so that no person has to."""
    needs_level(level)
    if by_rule:
        patch.setattr(seal_parts, "AT_LEVEL", {})
    if level is not Level.ENFORCED:
        patch.setattr(bubblewrap, "PROGRAM", NOWHERE)
        patch.setattr(bubblewrap, "packaged", str)
    if level is Level.NONE:
        patch.setattr(landlock, "version", lambda: 0)
    # Without an answer for this test, and with the one that there was after it.
    patch.setattr(detection, "_support", None)


@dataclass(frozen=True)
class LevelDesk(Desk):
    """A root whose commands have no stronger level than that one."""

    level: Level = Level.ENFORCED
    by_rule: bool = False
    """Whether a rule allows a program at a level that is not enforced, so that no person has to."""

    def argv(self, *words: str) -> list[str]:
        """As that of `Desk`."""
        code = _PATCH.format(level=self.level.value, nowhere=NOWHERE, by_rule=self.by_rule)
        # The program of a kernel on demand, which the kernel takes for flytui by its name.
        program = self.home / f"level-{self.level.value}" / "flytui"
        if not program.exists():
            program.parent.mkdir(exist_ok=True)
            program.write_text(f"#!{sys.executable}\n{code}{_KERNEL}")
            program.chmod(0o700)
        code += _COMMAND.format(program=str(program))
        return [sys.executable, "-c", code, "--root", str(self.root), *words]


def run_launch(launch: Launch, stdin: str = "") -> ChildExit:
    """Run the program of the launch to its end, as a call does, and close the launch."""
    spec = SpawnSpec(argv=launch.argv, cwd="/", env={}, call_id="launched", confine=lambda _: launch)
    limits = RunLimits(timeout_ms=60_000, max_output_bytes=4_194_304)
    return anyio.run(run_child, spec, stdin.encode(), limits)


def python_confined(level: Level, folder: Path, *, observed: bool = False) -> Callable[[SpawnSpec], Launch]:
    """Makes the start of a Python program that writes into the folder and reaches nothing else."""
    roots = {sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parents[1])}
    mounts = (*(Mount(root) for root in sorted(roots)), Mount(str(folder), writable=True))
    make = enforced_launch if level is Level.ENFORCED else degraded_launch

    def start(spec: SpawnSpec) -> Launch:
        confinement = Confinement(mounts=mounts, cwd=str(folder))
        return make(confinement, _layout(), spec.env, spec.argv, observed=observed)

    return start


@cache
def _layout() -> SystemLayout:
    return read_system_layout()
