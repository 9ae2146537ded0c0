"""The whole check: everything the contract asks of a program, tried one after the other."""

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
"""Asked for where nobody named a tool and the program names none."""


async def check_contract(trial: CheckTarget) -> AsyncIterator[Check]:
    """Each check as it ends. The program runs as whoever asks, without a sandbox, and does what it does.

    A tool that is empty in `trial` is the first one that `--schema` names. Where the plain call is not
    answered, nothing more is tried: all the rest would say the same.
    """
    with tempfile.TemporaryDirectory(prefix="flytui-check-") as folder:
        bench = SidecarHarness(trial, Path(folder))
        if not trial.tool:
            tools = (await describe(bench))[1]
            bench.trial = replace(trial, tool=tools[0] if tools else NO_TOOL)
        heard = await bench.run(bench.job())
        yield judge_answer(heard)
        for check in judge_rest(heard, persistent=trial.persistent):
            yield check
        if not has_answer(heard.outcome):
            return
        for tried in OTHER_CALLS:
            yield await tried(bench, heard.outcome)
        async for check in check_bad_requests(bench):
            yield check
        async for check in check_probes(bench):
            yield check
        if trial.persistent:
            async for check in check_persistent(bench):
                yield check
