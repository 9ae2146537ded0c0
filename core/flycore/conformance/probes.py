"""Checks of what a program reports without a call: probes and `--schema`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from flycore.conformance.harness import SidecarHarness, failed, passed, warned
from flycore.conformance.output_checks import has_answer, probe_faults, read_schema, reported_code
from flycore.model.diagnostics import Check
from flycore.model.enums import Code, ProbeMode, Status
from flycore.model.sidecar import DEFAULT_PROBE_TIMEOUT_MS
from flycore.runners.one_shot import RunOutcome, probe_sidecar

SCHEMA_ARGUMENT = "--schema"
SCHEMA_MS = 5_000
_PROBE_FORM = (
    '{"ok": true, "tools": {"NAME": {"status": "healthy"}}} or, with reason and remedy, "unavailable"'
)


async def check_probes(harness: SidecarHarness) -> AsyncIterator[Check]:
    """Check both forms of a probe, then `--schema`."""
    for mode in (ProbeMode.COMMAND, ProbeMode.REQUEST):
        yield judge_probe(mode, await probe_sidecar(harness.job(), mode, DEFAULT_PROBE_TIMEOUT_MS))
    yield (await describe(harness))[0]


def judge_probe(mode: ProbeMode, outcome: RunOutcome) -> Check:
    """Judge a probe's outcome. A probe need not be offered; an offered one must be quick and valid."""
    name = f"probe by {'--probe' if mode is ProbeMode.COMMAND else 'request'}"
    off = f'or do not set "mode" of "probe" in the entry to "{mode.value}"'
    if outcome.code == Code.TIMEOUT:
        return failed(name, outcome.message, f"answer within {DEFAULT_PROBE_TIMEOUT_MS} ms, without acting")
    if (outcome.exit_code or 0) < 0:
        return failed(name, outcome.message, f"answer {_PROBE_FORM}; {off}")
    if not has_answer(outcome) or (outcome.status is Status.FAILED):
        return warned(name, f"not offered: {reported_code(outcome)}", f"answer {_PROBE_FORM}; {off}")
    fields = outcome.output if isinstance(outcome.output, dict) else outcome.details
    faults = probe_faults(fields)
    if faults:
        return failed(name, "; ".join(faults), f"answer {_PROBE_FORM}")
    if outcome.status is Status.UNAVAILABLE:
        message = f"unavailable: {outcome.message}"
        return passed(name, message) if outcome.hint else warned(name, message, 'add a "remedy": what to do')
    if fields and not fields.keys() & {"status", "tools"}:
        return warned(
            name, "answered as if it were called", f"check for the probe first, and answer {_PROBE_FORM}"
        )
    return passed(name, f"{fields.get('status') or 'healthy'} after {outcome.duration_ms} ms")


async def describe(harness: SidecarHarness) -> tuple[Check, tuple[str, ...]]:
    """Check `--schema`; return the result and the names of the tools it describes."""
    job = harness.job(timeout_ms=SCHEMA_MS)
    run = await harness.run(replace(job, argv=(*job.argv, SCHEMA_ARGUMENT)), b"")
    name = "schema"
    if run.outcome.code == Code.TIMEOUT:
        return failed(name, run.outcome.message, f"answer {SCHEMA_ARGUMENT}, or refuse it, at once"), ()
    found = read_schema(run.ended.stdout)
    if found is None:
        return passed(name, f"does not describe itself with {SCHEMA_ARGUMENT}, which is optional"), ()
    tools, faults = found
    if faults:
        fix = '{"name": "…", "tools": [{"name": "…", "description": "…", "inputSchema": {…}}]}'
        return failed(name, "; ".join(faults), fix), tools
    return passed(name, f"describes {', '.join(tools) or 'no tool'}"), tools
