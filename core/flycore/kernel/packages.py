"""The packages of a running kernel: what is changed by a person, and what was cut off before."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from flycore.audit import events as audit_events
from flycore.kernel.bus import Recorder
from flycore.kernel.load_state import RootEnvironment
from flycore.kernel.package_probes import area_of, record_verdict, verdict
from flycore.kernel.questions import DESKTOP_CONTROLLED
from flycore.kernel.refresh import StateRefresher
from flycore.kernel.registry_edits import EditResult, LogLines, TrustedRegistry
from flycore.model.approval import Outcome
from flycore.model.enums import (
    PackageAction,
    PackageResult,
    PackageScope,
)
from flycore.model.errors import AuditUnwritable
from flycore.model.events import EventClass
from flycore.model.package import PackageCheck, PackageOutcome, PackageView
from flycore.packages import actions
from flycore.packages.actions import PackageEnd
from flycore.packages.area import PackageArea, areas
from flycore.packages.inventory import verify_area
from flycore.packages.recovery import recover_area
from flycore.pipeline.activity import ActivityLog
from flycore.runners.pool import ProcessPool

CALLS_END_S = 10.0
"""Seconds that running calls of a sidecar have to end by themselves before its package changes."""
CALLS_KILLED_S = 20.0
"""Seconds within which the processes of cancelled calls are ended."""
DISCARD = "discard"
KEEP = "keep"


class PackageActions:
    """Changes of packages, one at a time, each by a person who is named for the log."""

    def __init__(
        self,
        environment: RootEnvironment,
        recorder: Recorder,
        refresher: StateRefresher,
        activity: ActivityLog,
        pool: ProcessPool,
        desktop_controlled: Callable[[], bool],
    ) -> None:
        """While `desktop_controlled` returns True a tool could press keys, so that nothing is changed."""
        self._environment = environment
        self._recorder = recorder
        self._refresher = refresher
        self._activity = activity
        self._pool = pool
        self._desktop_controlled = desktop_controlled
        self._order = anyio.Lock()

    def views(self) -> tuple[PackageView, ...]:
        """Return the packages as the files were read last."""
        return self._refresher.files.packages

    def view(self, package: str, scope: PackageScope) -> PackageView | None:
        """Return one package; None where there is none of that id."""
        return next((view for view in self.views() if (view.id, view.scope) == (package, scope)), None)

    async def verify(self) -> tuple[PackageCheck, ...]:
        """Compare the files of each installed package with those that were installed."""

        def compare() -> tuple[PackageCheck, ...]:
            return tuple(check for area in areas(self._environment.places) for check in verify_area(area))

        return await anyio.to_thread.run_sync(compare)

    async def stage(self, source: str, scope: PackageScope, by: str) -> PackageOutcome:
        """Stage the version in a folder or an archive of this machine."""
        area, now = self._area(scope), self._recorder.clock.now()
        end = await anyio.to_thread.run_sync(actions.stage, area, Path(source), now)
        if end.outcome.changed:
            fields = audit_events.package_event(end.outcome, "staged", by=by)
            self._recorder.record(audit_events.PACKAGE_STAGED, fields)
        self._refresher.reload()
        await self._refresher.refresh()
        self._publish(end.outcome)
        return end.outcome

    async def change(
        self,
        action: PackageAction,
        package: str,
        scope: PackageScope,
        shown: str,
        by: str,
        *,
        agreed: bool = True,
    ) -> PackageOutcome:
        """Apply, roll back or remove a package, with its entry, which is trusted if a person `agreed`.

        `shown` is the digest of the review, for an apply. Running calls of the sidecar are waited for, and
        then ended. A version that does not answer its probe afterwards is `rollback-required`.
        """
        view = self.view(package, scope)
        if view is None:
            return _refused(package, scope, f"there is no package {package}")
        if self._desktop_controlled():
            return _refused(package, scope, DESKTOP_CONTROLLED)
        async with self._order:
            # Half a change would leave the sidecar stopped, so a client that leaves does not cut it off.
            with anyio.CancelScope(shield=True):
                outcome = await self._change(action, view, shown, by, agreed)
        self._publish(outcome)
        return outcome

    async def _change(
        self, action: PackageAction, view: PackageView, shown: str, by: str, agreed: bool
    ) -> PackageOutcome:
        area = self._area(view.scope)
        begun = await self._edit(
            lambda: actions.announce(area, view.id, action, shown), f"{action.value} begins", by
        )
        if not begun.changed:
            return begun
        await self._end_calls(view.sidecar)
        done = await self._edit(lambda: _carried_out(area, view.id, action, shown), action.value, by, agreed)
        return await self._probed(area, view.id, done, by) if done.changed else done

    async def _edit(
        self, act: Callable[[], PackageEnd], decision: str, by: str, agreed: bool = True
    ) -> PackageOutcome:
        """Act in a worker thread, trust the entry that was written if a person `agreed`, log it, and rebuild
        the state."""
        ends: list[PackageEnd] = []

        def edit(registry: TrustedRegistry, now: float) -> EditResult:
            end = act()
            ends.append(end)
            registry.read()
            fields = audit_events.package_event(end.outcome, decision, by=by)
            lines: LogLines = ((audit_events.PACKAGE_CHANGED, fields),)
            if agreed and end.entry is not None:
                lines += registry.trust_written(end.outcome.sidecar, end.entry, now, by)
            return EditResult(Outcome(accepted=end.outcome.changed, why_not=end.outcome.message), lines)

        await self._refresher.apply_edit(edit)
        return ends[0].outcome

    async def _end_calls(self, sidecar: str) -> None:
        """Wait for the running calls of a sidecar, and end those that take too long."""
        self._pool.retire(lambda key: key.sidecar == sidecar)
        running = [call.call_id for call in self._activity.under_way(sidecar)]
        with anyio.move_on_after(CALLS_END_S):
            await self._activity.wait_until_ended(running)
            return
        for call_id in running:
            self._activity.cancel(call_id)
        with anyio.move_on_after(CALLS_KILLED_S):
            await self._activity.wait_until_ended(running)

    async def _probed(self, area: PackageArea, package: str, done: PackageOutcome, by: str) -> PackageOutcome:
        """Probe what is installed now, and record whether it may stay."""
        view = self.view(package, area.scope)
        if view is None or not view.version:
            return done
        finding = await self._refresher.finding_of(view.sidecar)
        why_not = verdict(finding, self._refresher.files.programs.get(view.sidecar))
        places = self._environment.places
        recorded = await anyio.to_thread.run_sync(record_verdict, places, view, why_not)
        if recorded is None:
            return done
        fields = audit_events.package_event(recorded, "failed" if why_not else "healthy", by=by)
        self._recorder.record(audit_events.PACKAGE_PROBED, fields)
        self._refresher.reload()
        await self._refresher.refresh()
        return _with_state(done, recorded)

    async def try_again(self, package: str, scope: PackageScope, by: str) -> PackageOutcome:
        """Probe the installed version once more; where it answers, it stays."""
        view = self.view(package, scope)
        if view is None:
            return _refused(package, scope, f"there is no package {package}")
        self._refresher.forget_probe(view.sidecar)
        area = self._area(scope)
        done = PackageOutcome(id=package, sidecar=view.sidecar, scope=scope, result=PackageResult.COMMITTED)
        return await self._probed(area, package, done, by)

    async def reinstall(self, package: str, scope: PackageScope, by: str) -> PackageOutcome:
        """Take the files of the installed version again from where they came, where they are not what they
        were, and probe it once more; where it answers, it stays. Other files than those that a person agreed
        to are only staged, for a review."""
        area, now = self._area(scope), self._recorder.clock.now()
        ends: list[PackageEnd] = []

        def act() -> PackageEnd:
            ends.append(actions.restage(area, package, now))
            return ends[0]

        outcome = await self._edit(act, "reinstall", by)
        view = self.view(package, scope)
        if not outcome.changed or view is None:
            return outcome
        if ends[0].again:
            return await self.change(PackageAction.APPLY, package, scope, ends[0].again, by)
        return await self.try_again(package, scope, by) if not outcome.message else outcome

    async def simple(self, option: str, package: str, scope: PackageScope, by: str) -> PackageOutcome:
        """Discard what is staged, or keep a broken version disabled."""
        act = actions.discard_staged if option == DISCARD else actions.keep_disabled
        area = self._area(scope)
        outcome = await self._edit(lambda: act(area, package), option, by)
        self._publish(outcome)
        return outcome

    def _area(self, scope: PackageScope) -> PackageArea:
        return area_of(self._environment.places, scope)

    def _publish(self, outcome: PackageOutcome) -> None:
        payload = {"package": outcome.id, "state": outcome.state.value, "result": outcome.result.value}
        self._recorder.publish(EventClass.PACKAGE, "package.changed", {**payload})


def _carried_out(area: PackageArea, package: str, action: PackageAction, shown: str) -> PackageEnd:
    if action is PackageAction.APPLY:
        return actions.apply(area, package, shown)
    act = actions.roll_back if action is PackageAction.ROLLBACK else actions.remove
    return act(area, package)


def _with_state(done: PackageOutcome, probed: PackageOutcome) -> PackageOutcome:
    """Return the outcome of a change with the state after the probe."""
    message = probed.message or done.message
    return msgspec.structs.replace(done, state=probed.state, message=message)


def _refused(package: str, scope: PackageScope, why: str) -> PackageOutcome:
    return PackageOutcome(id=package, scope=scope, result=PackageResult.FAILED, message=why)


def recover_packages(environment: RootEnvironment, recorder: Recorder) -> None:
    """Finish or undo what was cut off before this kernel, and log it. Called before the root is read."""
    for area in areas(environment.places):
        for outcome in recover_area(area):
            fields = audit_events.package_event(outcome, "recovered")
            with suppress(AuditUnwritable):
                recorder.audit.append(audit_events.PACKAGE_RECOVERED, fields)
