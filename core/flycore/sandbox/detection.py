"""Which levels of the sandbox work on this machine. Each is tried with a program, because a version proves
nothing."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Callable
from functools import partial
from threading import Lock

import msgspec

from flycore.model.enums import Level
from flycore.sandbox import bubblewrap, landlock
from flycore.sandbox.confinement import Confinement, Mount, read_system_layout
from flycore.sandbox.launch import ArchitectureUnknown, Launch, degraded_launch, enforced_launch
from flycore.sandbox.trial_process import run_trial

INSTALL_BUBBLEWRAP = (
    "install bubblewrap (Debian and Ubuntu: apt install bubblewrap), or, without rights to install packages,"
    " flytui with its extra: flytui[bubblewrap]"
)
ALLOW_NAMESPACES = (
    "let your user make user namespaces: sysctl kernel.unprivileged_userns_clone=1 on Debian, "
    "kernel.apparmor_restrict_unprivileged_userns=0 or an AppArmor profile for bwrap on Ubuntu, "
    "user.max_user_namespaces above 0 everywhere"
)
NEED_LANDLOCK = "use a kernel with Landlock: Linux 5.13 or newer, with landlock among its security modules"
OTHER_MACHINE = "there is none: the filter of system calls exists for x86-64 and aarch64 only"
_PROGRAM = "/bin/true"
_TIMEOUT_S = 20.0
_MAX_REASON = 2_000


class LevelCheck(msgspec.Struct, frozen=True):
    """Whether a level works here; else why not, and what a person can do."""

    level: Level
    works: bool
    reason: str = ""
    remedy: str = ""
    bind_by_descriptor: bool = True
    """For bubblewrap: whether it mounts open descriptors (`--bind-fd`), which versions before 0.8.0 lack."""
    program: str = ""
    """For bubblewrap: the path of the program that works."""


class SandboxSupport(msgspec.Struct, frozen=True):
    """The levels that work on this machine, as they were last tried."""

    checks: tuple[LevelCheck, ...] = ()
    """The strongest level first, down to the first one that works. Empty where nothing was tried, because no
    entry needs it."""

    @property
    def best(self) -> Level:
        """The strongest level that works."""
        return next((check.level for check in self.checks if check.works), Level.NONE)

    @property
    def bind_by_descriptor(self) -> bool:
        """For bubblewrap: as in `LevelCheck`."""
        return all(check.bind_by_descriptor for check in self.checks)

    @property
    def bubblewrap_program(self) -> str:
        """The path of the bubblewrap that works; empty if none does."""
        return next((check.program for check in self.checks if check.works), "")

    @property
    def missing(self) -> tuple[LevelCheck, ...]:
        """The stronger levels that do not work."""
        return tuple(check for check in self.checks if not check.works)

    def remedy(self, least: Level) -> str:
        """What makes a level work that is at least this one; empty where nothing is known to."""
        return next((check.remedy for check in self.missing if check.level.at_least(least)), "")


UNTRIED = SandboxSupport()


class SandboxDetection:
    """The levels that work here, tried when they are first needed and again after a failure.

    A process has one answer for all its roots. It may be used from several threads.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._support: SandboxSupport | None = None

    def support(self) -> SandboxSupport:
        """Return what works. The first time, and after `expire`, this waits for processes."""
        with self._lock:
            if self._support is None:
                self._support = find_support()
            return self._support

    def expire(self) -> None:
        """Have the levels tried again when they are next needed."""
        with self._lock:
            self._support = None


detection = SandboxDetection()
"""The one of this process."""


def find_support() -> SandboxSupport:
    """Try the levels, the strongest first, until one works. This waits for processes."""
    checks: list[LevelCheck] = []
    for level in (Level.ENFORCED, Level.DEGRADED):
        checks.append(check_level(level))
        if checks[-1].works:
            break
    return SandboxSupport(tuple(checks))


def check_level(level: Level) -> LevelCheck:
    """Start a program at the level and see whether it ran. This waits for processes, so it must not be called
    on an event loop. Levels that confine nothing always work."""
    if level is Level.ENFORCED:
        return _check_bubblewrap()
    if level is Level.DEGRADED:
        return _check_landlock()
    return LevelCheck(level, works=level is not Level.DENIED)


def _check_bubblewrap() -> LevelCheck:
    check = _fails(Level.ENFORCED, f"there is no {bubblewrap.PROGRAM}", INSTALL_BUBBLEWRAP)
    programs = bubblewrap.programs()
    for program in programs if len(programs) < 2 else sorted(programs, key=_version, reverse=True):
        check = _check_program(program)
        if check.works:
            break
    return check


def _version(program: str) -> tuple[int, ...]:
    """The numbers of its version; none if it tells none."""
    try:
        words = [program, "--version"]
        told = subprocess.run(words, env={}, capture_output=True, timeout=_TIMEOUT_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(map(int, re.findall(rb"[0-9]{1,9}", told[:_MAX_REASON])))


def _check_program(program: str) -> LevelCheck:
    reason = ""
    for by_descriptor in (True, False):
        try:
            make = partial(enforced_launch, bubblewrap_program=program, bind_by_descriptor=by_descriptor)
            reason = _run(make)
        except ArchitectureUnknown:
            return _fails(Level.ENFORCED, f"this machine is {platform.machine()}", OTHER_MACHINE)
        if not reason:
            return LevelCheck(Level.ENFORCED, works=True, bind_by_descriptor=by_descriptor, program=program)
        if "nknown option" not in reason:
            break  # an older bwrap says so of --bind-fd; anything else fails without it, too
    return _fails(Level.ENFORCED, reason, ALLOW_NAMESPACES)


def _check_landlock() -> LevelCheck:
    if not landlock.version():
        return _fails(Level.DEGRADED, "this kernel has no Landlock, or it is switched off", NEED_LANDLOCK)
    try:
        reason = _run(degraded_launch)
    except ArchitectureUnknown:
        return _fails(Level.DEGRADED, f"this machine is {platform.machine()}", OTHER_MACHINE)
    return _fails(Level.DEGRADED, reason, NEED_LANDLOCK) if reason else LevelCheck(Level.DEGRADED, works=True)


def _fails(level: Level, reason: str, remedy: str) -> LevelCheck:
    return LevelCheck(level, works=False, reason=reason, remedy=remedy)


def _run(make: Callable[..., Launch]) -> str:
    """Why the program did not run to its end; empty if it did."""
    # With every option that a call uses.
    confinement = Confinement(mounts=(Mount("/usr"),), cwd="/", shown_empty=("/srv/flytui",))
    try:
        launch = make(confinement, read_system_layout(), {}, (_PROGRAM,))
    except OSError as error:
        return str(error)
    try:
        ran = run_trial(launch, _TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if not ran.returncode:
        return ""
    told = ran.stderr[-_MAX_REASON:].decode("utf-8", "replace").strip().splitlines()
    return told[-1] if told else f"it ended with {ran.returncode}"
