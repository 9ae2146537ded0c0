"""Step 5: whether calls are taken at all: not while everything is stopped, nor from a paused caller."""

from __future__ import annotations

from pathlib import Path

from flycore.approval.guards import QuotaRefusal
from flycore.executive.call import Call
from flycore.executive.rooms import AdmissionContext
from flycore.executive.stop import Rejection, denied, failed
from flycore.model.enums import Code


def admission_refusal(admission: AdmissionContext, call: Call) -> Rejection | None:
    """Why the call is not taken; None where it is."""
    if admission.stopped():
        return panic_rejection(admission.app_root, began=False)
    if paused := admission.loops.refusal(call.request.caller.key):
        return denied(Code.PAUSED, paused, "do not repeat it unchanged: a person decides in the console")
    return None


def panic_rejection(app_root: Path, *, began: bool) -> Rejection:
    """How a call ends by panic: refused, or, where it had begun, broken off."""
    hint = f"a person has to release it: flytui --root {app_root}, then ctrl+o"
    if began:
        return failed(Code.PANIC, "everything was stopped while this ran; it may have acted in part", hint)
    return denied(Code.PANIC, "everything is stopped", hint)


def quota_rejection(over: QuotaRefusal) -> Rejection:
    """How a call ends that its caller has no quota left for."""
    return denied(Code.QUOTA, over.message, freeInSeconds=over.free_in)
