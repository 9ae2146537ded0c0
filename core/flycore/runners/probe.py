"""Asks a sidecar whether the thing behind it is there, without acting: the same spawn path, its own limit."""

from __future__ import annotations

from dataclasses import replace

from flycore.model.enums import ProbeMode, Status
from flycore.runners.process_json import ProcessJsonJob, RunOutcome, call_sidecar, outcome_of
from flycore.runners.run import RunLimits, run_child

PROBE_ARGUMENT = "--probe"


async def probe_sidecar(job: ProcessJsonJob, mode: ProbeMode, timeout_ms: int) -> RunOutcome:
    """The probe's answer as an outcome; `output` holds `tools` and whatever else it said.

    `command` runs the program with `--probe` and an empty stdin: exit 0 without a word is an answer, too.
    Any other mode sends `job.tool` the input `{"probe": true}`. Whether to probe at all is not decided here.
    """
    probing = replace(job, timeout_ms=timeout_ms, input={"probe": True})
    if mode is not ProbeMode.COMMAND:
        return await call_sidecar(probing)
    probing = replace(probing, argv=(*job.argv, PROBE_ARGUMENT))
    limits = RunLimits(timeout_ms=timeout_ms, max_output_bytes=job.max_output_bytes)
    ended = await run_child(probing.spawn_spec, b"", limits)
    if ended.exit_code == 0 and not ended.timed_out and not ended.stdout.strip():
        return RunOutcome(status=Status.SUCCESS, output={}, exit_code=0, duration_ms=ended.duration_ms)
    return outcome_of(probing, ended, ended.stdout)
