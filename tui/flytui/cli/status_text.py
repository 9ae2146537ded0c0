"""The lines of `flytui status`, from its document."""

from __future__ import annotations

from flycore.model.status import Status
from flytui.cli.documents import StatusDocument
from flytui.cli.output import count_of
from flytui.text.kernels import clock_time, kernel_name


def _risk_text(kernel: Status) -> str:
    return f", the highest risk {kernel.waiting_risk.value}" if kernel.waiting_risk is not None else ""


def _waiting_text(kernel: Status) -> str:
    away = f"; {kernel.turned_away} turned away, as the queue was full" if kernel.turned_away else ""
    return f"{kernel.waiting} waiting for approval{_risk_text(kernel)}{away}"


def _policy_text(kernel: Status) -> str:
    if not kernel.policy_ok:
        return "failed to load: flytui doctor says where"
    if kernel.waiting_rules:
        changes = count_of(kernel.waiting_rules, "looser change")
        verb = "waits" if kernel.waiting_rules == 1 else "wait"
        return f"loaded; {changes} of its file {verb} for you: flytui approvals"
    return "loaded"


def _consoles(kernel: Status) -> str:
    if not kernel.approver:
        return "nobody can decide"
    return "a person can decide" + (f", in {kernel.consoles} consoles" if kernel.consoles > 1 else "")


def status_lines(document: StatusDocument) -> list[str]:
    """Returns the status as plain lines."""
    lines = [f"root     {document.app_root}"]
    kernel = document.kernel
    if document.held_by is not None:
        lines.append(f"kernel   held by pid {document.held_by}, does not answer: flytui panic ends it")
    elif kernel is None:
        lines.append("kernel   none runs: flytui opens a console here")
    else:
        name = kernel_name(kernel.role, kernel.on_demand)
        lines += [
            f"kernel   {name}, pid {kernel.pid}, since {clock_time(kernel.since)}",
            f"version  flytui {kernel.version}",
            f"console  {_consoles(kernel)}",
            f"calls    {kernel.running} running, {_waiting_text(kernel)}",
            f"leases   {kernel.leases}",
            f"agents   {kernel.agents}",
            *(f"listens  {address}" for address in kernel.listening),
            f"policy   {_policy_text(kernel)}",
            f"sandbox  {kernel.sandbox}",
        ]
        if kernel.notify_problem:
            lines.append(f"notify   {kernel.notify_problem}")
        if kernel.hands_on:
            lines.append("hands    a tool controls the mouse or the keyboard")
    if document.panic:
        lines.append("panic    everything is stopped until a person releases it: flytui, then ctrl+o")
    if document.waiting_trust is not None:
        lines.append(f"trust    {document.waiting_trust} waiting")
    lines.append(f"socket   {document.socket}")
    return lines
