"""What a benchmark needs of the machine, so that one that cannot run says why."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec


def why_not(stem: str) -> str:
    """Return why the benchmark cannot run on this machine; empty if it can."""
    return next((reason for check in _NEEDS.get(stem, ()) if (reason := check())), "")


def _compiler() -> str:
    return "" if shutil.which("cc") else "its reference is written in C, and there is no cc"


def _linux() -> str:
    return "" if sys.platform == "linux" else "it reads /proc, which only Linux has"


def _sandbox() -> str:
    from flycore.model.enums import Level
    from flycore.sandbox.detection import check_level

    check = check_level(Level.ENFORCED)
    return "" if check.works else f"the level enforced does not work: {check.reason}"


def _sdk() -> str:
    return "" if find_spec("mcp") else "the package mcp is not installed"


_NEEDS: dict[str, tuple[Callable[[], str], ...]] = {
    "p01_call": (_linux, _compiler, _sandbox),
    "p02_in_flight": (_linux, _compiler, _sandbox),
    "p03_cold": (_compiler, _sandbox),
    "p04_staying": (_sdk, _sandbox),
    "p05_output": (_linux, _compiler),
    "p07_executables": (_compiler,),
    "p09_console": (_linux,),
    "p10_upstream": (_sdk, _sandbox),
    "p14_idle": (_linux, _sandbox),
    "p19_approval": (_linux, _compiler, _sandbox),
    "p20_servers": (_linux, _sandbox),
    "p20_queue": (_linux,),
    "s15_loop": (_linux,),
}
