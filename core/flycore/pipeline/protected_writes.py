"""Keeps a run from files that run by themselves: found before it, and looked for after it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import anyio
import anyio.to_thread

from flycore.model.enums import Code, Level, Status
from flycore.model.json import JsonObject
from flycore.model.sidecar import Permissions
from flycore.pipeline.confine import protected_files
from flycore.pipeline.context import RootEnvironment
from flycore.registry.paths import RootPaths
from flycore.runners.one_shot import RunOutcome
from flycore.sandbox.call_confinement import PathLimit
from flycore.sandbox.levels import CONFINING
from flycore.sandbox.protected_changes import Settled, settle
from flycore.sandbox.protected_files import NOTHING_PROTECTED, ProtectedFiles

_MOST_NAMED = 8
"""Paths that are named in one message."""


class ProtectedWrites:
    """What one run may not write, and after the run what it wrote of that."""

    def __init__(self, files: ProtectedFiles) -> None:
        self.files = files
        self._settled = Settled()

    async def settle(self, places: RootPaths, call_id: str) -> None:
        """Look at everything that could be written, once nothing of the run is left that writes."""
        if self.files.grants:
            aside = places.moved_aside_dir / call_id
            with anyio.CancelScope(shield=True):
                self._settled = await anyio.to_thread.run_sync(settle, self.files, aside)

    @property
    def problem(self) -> str:
        """What the run did to protected paths, in a sentence; empty if it did nothing."""
        return "; ".join(_sentences(self._settled))

    def judged(self, outcome: RunOutcome) -> RunOutcome:
        """The outcome, or a failure if the run wrote what is protected."""
        found = self._settled
        if found.clean:
            return outcome
        if self.files.held and not (found.moved or found.put_back or found.unread):
            # Mounts hold what was there at the start of the process: the person may have changed it.
            return outcome.with_warnings((self.problem,))
        paths = [*(name for name, _, _ in found.moved), *found.put_back, *found.changed]
        cause = {"code": str(outcome.code), "message": outcome.message}
        details: JsonObject = {"paths": list(paths[:_MOST_NAMED])}
        if outcome.status is not Status.SUCCESS:
            details["cause"] = {key: text for key, text in cause.items() if text}
        return replace(
            outcome,
            status=Status.FAILED,
            code=Code.PROTECTED_PATH,
            message=self.problem,
            hint="no tool writes these files: tell the person what to change there; what the tool did"
            " otherwise stays",
            details={**outcome.details, **details},
            output=None,
        )


def _sentences(settled: Settled) -> Iterator[str]:
    for name, why, place in settled.moved[:_MOST_NAMED]:
        moved = f"it was moved to {place}" if place else "it could not be moved aside, so remove it"
        yield f"the tool made {name}, which no tool may ({why}); {moved}"
    if len(settled.moved) > _MOST_NAMED:
        yield f"so were {len(settled.moved) - _MOST_NAMED} more"
    if settled.put_back:
        yield f"the tool replaced links that are put back: {_listed(settled.put_back)}"
    if settled.changed:
        listed = _listed(settled.changed)
        yield f"while it ran, protected files changed, by the tool or by another program: {listed}"
    if settled.unread:
        yield f"what the tool wrote could not be looked through: {settled.unread}"


def _listed(names: tuple[str, ...]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


@asynccontextmanager
async def protected_writes(
    root: RootEnvironment,
    level: Level,
    permissions: Permissions,
    input: JsonObject,
    call_id: str,
    limits: tuple[PathLimit, ...] = (),
    *,
    compared: bool = False,
) -> AsyncIterator[ProtectedWrites]:
    """Hold what a run at that level may not write while the block runs, and look at it at its end, however it
    ends. `compared` is that of `ProtectedFiles`. Raises NotPermitted for a grant that cannot be protected."""
    writes = ProtectedWrites(NOTHING_PROTECTED)
    if permissions.write and level in CONFINING:
        home = root.environ.get("HOME", "")
        find = partial(
            protected_files, root.places, home, level, permissions, input, limits, compared=compared
        )
        writes = ProtectedWrites(await anyio.to_thread.run_sync(find))
    try:
        yield writes
    finally:
        await writes.settle(root.places, call_id)
