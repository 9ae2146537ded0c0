"""The full contract check of a program: all single checks, one after the other."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from flycore.conformance.bad_requests import check_bad_requests
from flycore.conformance.calls import OTHER_CALLS, judge_answer, judge_rest
from flycore.conformance.harness import CheckTarget, SidecarHarness
from flycore.conformance.output_checks import has_answer
from flycore.conformance.persistent import check_persistent
from flycore.conformance.probes import check_probes, describe
from flycore.model.diagnostics import Check

NO_TOOL = "sidecar.check"
"""The tool of the calls if neither the person nor the program names one."""


async def check_contract(target: CheckTarget) -> AsyncIterator[Check]:
    """Run every check and yield each result when it is there.

    The program runs with your rights and without a sandbox, so its calls take effect. If `target` has no
    tool, the first one that the program's `--schema` names is called. If the plain call gets no answer, the
    check ends there, as every further call would fail for the same reason.
    """
    with tempfile.TemporaryDirectory(prefix="flytui-check-") as folder:
        harness = SidecarHarness(target, Path(folder))
        if not target.tool:
            tools = (await describe(harness))[1]
            harness.target = replace(target, tool=tools[0] if tools else NO_TOOL)
        run = await harness.run(harness.job())
        yield judge_answer(run)
        for check in judge_rest(run, persistent=target.persistent):
            yield check
        if not has_answer(run.outcome):
            return
        for check_call in OTHER_CALLS:
            yield await check_call(harness, run.outcome)
        async for check in check_bad_requests(harness):
            yield check
        async for check in check_probes(harness):
            yield check
        if target.persistent:
            async for check in check_persistent(harness):
                yield check
