"""`flytui doctor`: one line a check, with the fix."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.output import emit, say, say_strict
from flytui.cli.reading import ask_running, read_catalog

if TYPE_CHECKING:
    from flycore.client.protocol import Client
    from flycore.model.status import Status
    from flycore.registry.places import Places
    from flytui.cli.documents import Check

EXIT_ERRORS = 5
PROGRAMS = ("xdotool", "tmux")


@click.command()
@common
def doctor(invocation: Invocation) -> int:
    """Check everything that flytui stands on. Exit 0, or 5 when something is written wrong."""
    from flytui.cli.documents import CheckState, DoctorDocument

    places = invocation.places()
    checks = tuple(run_checks(places))
    failed = sum(check.state is CheckState.FAIL for check in checks)
    if invocation.as_json:
        emit(DoctorDocument(app_root=str(places.app_root), checks=checks))
    else:
        for check in checks:
            say("\n".join(check_lines(check)))
            for line in check.difference:
                say_strict(f"        {line}")
        warned = sum(check.state is CheckState.WARN for check in checks)
        say(f"{len(checks)} checks: {failed} failed, {warned} to look at")
    return EXIT_ERRORS if failed else 0


def check_lines(check: Check) -> list[str]:
    """One check: its line, and the fix below it."""
    first, *rest = check.message.split("\n")
    lines = [f"{check.state.value:<4}  {check.name}: {first}", *(f"        {line}" for line in rest)]
    return [*lines, f"      → {check.fix}"] if check.fix else lines


def run_checks(places: Places) -> list[Check]:
    """Look at everything. Spawns nothing but probes of trusted sidecars."""
    from flycore.audit.verify import verify
    from flytui.cli import checks
    from flytui.cli.pending import read_pending

    pending = read_pending(places)
    registry, policy = pending.files.registry, pending.files.policy
    other = tuple(found for found in registry.diagnostics if found not in policy.diagnostics)
    running = ask_running(places, _status)
    catalog = read_catalog(places, probe=True)
    audit = verify(places.state_dir / "audit", places.data_dir / "anchors" / f"{places.key}.jsonl")
    notify = pending.files.settings.notify_command
    notify_found = bool(notify) and shutil.which(notify[0]) is not None
    problem = running.notify_problem if running else ""
    present = {name: shutil.which(name) is not None for name in PROGRAMS}
    return [
        checks.check_python(sys.version_info[:3]),
        *checks.check_registry(registry.files, other),
        *(check for view in catalog.sidecars for check in checks.check_sidecar(view)),
        *checks.check_policy(policy, time.time(), running.pid if running else None),
        *checks.check_trust(len(pending.items), pending.store.diagnostics),
        checks.check_sandbox(),
        checks.check_audit(audit),
        *checks.check_notify(notify, found=notify_found, problem=problem),
        _socket(places),
        checks.check_terminal(os.environ, _terminal_size(), sys.stdout.encoding),
        *checks.check_desktop(registry.entries, os.environ, present),
    ]


async def _status(client: Client) -> Status:
    return await client.status()


def _socket(places: Places) -> Check:
    from flytui.cli.checks import check_socket

    folder = places.socket.parent
    found = folder.lstat() if os.path.lexists(folder) else None
    return check_socket(str(folder), found, os.getuid(), bool(os.environ.get("XDG_RUNTIME_DIR")))


def _terminal_size() -> tuple[int, int] | None:
    """Columns and rows; None where standard output is no terminal."""
    if not sys.stdout.isatty():
        return None
    size = shutil.get_terminal_size()
    return size.columns, size.lines
