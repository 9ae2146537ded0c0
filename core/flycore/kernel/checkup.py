"""Looks at everything one root stands on, for Doctor. Reads; spawns nothing and writes nothing."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from flycore.approval.describe import describe_entry
from flycore.approval.trust import TrustStore
from flycore.audit.history import MOST_OPEN, CallRecord
from flycore.audit.projection import history
from flycore.audit.span import TimeRange
from flycore.audit.verify import verify
from flycore.kernel import checks
from flycore.kernel.panic import read_panic
from flycore.kernel.world import find_environment, read_files
from flycore.model.catalog import Catalog
from flycore.model.check import Check
from flycore.model.enums import Code
from flycore.model.status import Status
from flycore.registry.places import RootPaths

PROGRAMS = ("xdotool",)


def check_up(
    places: RootPaths, environ: Mapping[str, str], catalog: Catalog, running: Status | None
) -> tuple[Check, ...]:
    """Every check but those of a terminal, over the files as they are now. `running` is what the kernel
    of the root says of itself, None where there is none. Reads the whole log: not for an event loop."""
    files = read_files(find_environment(places, environ), None)
    registry, policy, notify = files.registry, files.policy, files.settings.notify_command
    store = TrustStore.load(places.trust_file)
    waiting = store.pending(registry, lambda entry: describe_entry(entry, files.resolutions(entry.id)))
    other = tuple(found for found in registry.diagnostics if found not in policy.diagnostics)
    stopped = running.panic if running else read_panic(places.state_dir) is not None
    path = environ.get("PATH", "")
    return (
        checks.check_python(sys.version_info[:3]),
        *checks.check_registry(registry.files, other),
        *(check for view in catalog.sidecars for check in checks.check_sidecar(view)),
        *checks.check_policy(policy, time.time(), running.pid if running else None),
        *checks.check_trust(len(waiting), store.diagnostics),
        checks.check_panic(stopped),
        checks.check_sandbox(),
        checks.check_audit(verify(places.audit_dir, places.anchors_file)),
        *checks.check_anchors(running.anchor_problem if running else ""),
        checks.check_outcomes(_unknown(places)),
        *checks.check_notify(
            notify,
            found=bool(notify) and shutil.which(notify[0], path=path) is not None,
            problem=running.notify_problem if running else "",
        ),
        _socket(places, environ),
        *checks.check_desktop(
            registry.entries, environ, {name: shutil.which(name, path=path) is not None for name in PROGRAMS}
        ),
    )


def _unknown(places: RootPaths) -> tuple[CallRecord, ...]:
    """Calls of the last day whose outcome is not known; none where the log cannot be read, which is a check
    of its own."""
    day = TimeRange(since=datetime.now(UTC) - timedelta(days=1))
    with suppress(OSError):
        calls = history(places.audit_dir, limit=MOST_OPEN, span=day)
        return tuple(call for call in calls if call.code == Code.OUTCOME_UNKNOWN)
    return ()


def _socket(places: RootPaths, environ: Mapping[str, str]) -> Check:
    folder = places.socket.parent
    found = folder.lstat() if os.path.lexists(folder) else None
    return checks.check_socket(str(folder), found, os.getuid(), bool(environ.get("XDG_RUNTIME_DIR")))
