"""What a program says of itself without being called: probes and `--schema`."""

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


async def check_probes(bench: SidecarHarness) -> AsyncIterator[Check]:
    """Both forms of a probe, then the schema."""
    for mode in (ProbeMode.COMMAND, ProbeMode.REQUEST):
        yield judge_probe(mode, await probe_sidecar(bench.job(), mode, DEFAULT_PROBE_TIMEOUT_MS))
    yield (await describe(bench))[0]


def judge_probe(mode: ProbeMode, outcome: RunOutcome) -> Check:
    """A probe is offered or not; one that is offered is quick, and says what can be read."""
    name = f"probe by {'--probe' if mode is ProbeMode.COMMAND else 'request'}"
    off = f'else keep "mode" of "probe" in the entry from "{mode.value}"'
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
        said = f"unavailable: {outcome.message}"
        return passed(name, said) if outcome.hint else warned(name, said, 'say with "remedy" what to do')
    if fields and not fields.keys() & {"status", "tools"}:
        return warned(
            name, "answered as if it had been called", f"look for the probe first, answer {_PROBE_FORM}"
        )
    return passed(name, f"{fields.get('status') or 'well'} after {outcome.duration_ms} ms")


async def describe(bench: SidecarHarness) -> tuple[Check, tuple[str, ...]]:
    """The check of `--schema`, and the tools it names."""
    job = bench.job(timeout_ms=SCHEMA_MS)
    heard = await bench.run(replace(job, argv=(*job.argv, SCHEMA_ARGUMENT)), b"")
    name = "schema"
    if heard.outcome.code == Code.TIMEOUT:
        return failed(name, heard.outcome.message, f"answer {SCHEMA_ARGUMENT}, or refuse it, at once"), ()
    found = read_schema(heard.ended.stdout)
    if found is None:
        return passed(name, f"does not describe itself with {SCHEMA_ARGUMENT}, and need not"), ()
    tools, faults = found
    if faults:
        fix = '{"name": "…", "tools": [{"name": "…", "description": "…", "inputSchema": {…}}]}'
        return failed(name, "; ".join(faults), fix), tools
    return passed(name, f"describes {', '.join(tools) or 'no tool'}"), tools
