"""The lines of `flytui status`, from its document. It imports no library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flytui.cli.output import clock_time, count_of, kernel_name

Fields = Mapping[str, Any]
"""An object of the document `flytui.status/1`."""


def _risk_text(kernel: Fields) -> str:
    return f", the highest risk {kernel['waitingRisk']}" if kernel["waitingRisk"] is not None else ""


def _waiting_text(kernel: Fields) -> str:
    away = f"; {kernel['turnedAway']} turned away, as the queue was full" if kernel["turnedAway"] else ""
    return f"{kernel['waiting']} waiting for approval{_risk_text(kernel)}{away}"


def _policy_text(kernel: Fields) -> str:
    if not kernel["policyOk"]:
        return "failed to load: flytui doctor says where"
    if kernel["waitingRules"]:
        changes = count_of(kernel["waitingRules"], "looser change")
        verb = "waits" if kernel["waitingRules"] == 1 else "wait"
        return f"loaded; {changes} of its file {verb} for you: flytui approvals"
    return "loaded"


def _consoles(kernel: Fields) -> str:
    if not kernel["approver"]:
        return "nobody can decide"
    return "a person can decide" + (f", in {kernel['consoles']} consoles" if kernel["consoles"] > 1 else "")


def status_lines(document: Fields) -> list[str]:
    """Returns the status as plain lines."""
    lines = [f"root     {document['appRoot']}"]
    kernel = document["kernel"]
    if document["heldBy"] is not None:
        lines.append(f"kernel   held by pid {document['heldBy']}, does not answer: flytui panic ends it")
    elif kernel is None:
        lines.append("kernel   none runs: flytui opens a console here")
    else:
        name = kernel_name(kernel["role"], kernel["onDemand"])
        lines += [
            f"kernel   {name}, pid {kernel['pid']}, since {clock_time(kernel['since'])}",
            f"version  flytui {kernel['version']}",
            f"console  {_consoles(kernel)}",
            f"calls    {kernel['running']} running, {_waiting_text(kernel)}",
            f"leases   {kernel['leases']}",
            f"agents   {kernel['agents']}",
            *(f"listens  {address}" for address in kernel["listening"]),
            f"policy   {_policy_text(kernel)}",
            f"sandbox  {kernel['sandbox']}",
        ]
        if kernel["notifyProblem"]:
            lines.append(f"notify   {kernel['notifyProblem']}")
        if kernel["handsOn"]:
            lines.append("hands    a tool controls the mouse or the keyboard")
    if document["panic"]:
        lines.append("panic    everything is stopped until a person releases it: flytui, then ctrl+o")
    if document["waitingTrust"] is not None:
        lines.append(f"trust    {document['waitingTrust']} waiting")
    lines.append(f"socket   {document['socket']}")
    return lines
