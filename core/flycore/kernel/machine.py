"""What this machine has for mending things: its package manager, and which helpers are not there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from flycore.catalog.fixes import MANAGERS, NEEDED, Machine


def find_host_tools(environ: Mapping[str, str]) -> Machine:
    """Look on the PATH of `environ`. Starts nothing."""
    path = os.pathsep.join(filter(os.path.isabs, environ.get("PATH", "").split(os.pathsep)))
    manager = next((name for name in MANAGERS if shutil.which(name, path=path)), "")
    prefix: tuple[str, ...] = ()
    if manager and manager != "brew" and os.geteuid() != 0:
        prefix = ("sudo",)
        manager = manager if shutil.which("sudo", path=path) else ""
    absent = frozenset(name for name in NEEDED.values() if shutil.which(name, path=path) is None)
    return Machine(manager=manager, prefix=prefix if manager else (), absent=absent)
