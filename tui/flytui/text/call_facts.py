"""What lists say of a call in a few words: what it does, who asked, who decided and how fast."""

from __future__ import annotations

import json
import re

from flycore.catalog.risk import effect_sentence
from flycore.model.call import Activity
from flycore.model.caller import Caller
from flycore.model.catalog import Catalog
from flycore.model.enums import Phase, RequestState
from flycore.model.json import Json, JsonObject
from flytui.text.caller import caller_name
from flytui.text.labels import milliseconds_text

MOST_INPUT_CHARACTERS = 16_384
"""An input beyond it is not read to make a sentence; its page shows it."""
_PROCESS = re.compile(r" \(pid \d+\)")
_OUTCOMES = {
    RequestState.APPROVED: "you approved",
    RequestState.DENIED: "you denied",
    RequestState.TIMED_OUT: "nobody answered",
    RequestState.WITHDRAWN: "withdrawn",
}


def effect_text(catalog: Catalog | None, tool: str, input: Json) -> str:
    """The tool with the sentence of the card for a call of it. The tool's name alone where its effect is not
    known, because the catalog has no such tool or the input is not the object that was sent."""
    view = catalog.capability(tool) if catalog is not None else None
    if view is None or not isinstance(input, dict):
        return tool
    return f"{tool} · {effect_sentence(view.capability, input)}"


def call_effect(catalog: Catalog | None, call: Activity) -> str:
    """The sentence of the card for a call in the list."""
    return effect_text(catalog, call.tool, parsed_input(call.input_text))


def parsed_input(text: str) -> JsonObject | None:
    """The input of a call as an object; None where it is cut or too long to be read for a list."""
    if len(text) > MOST_INPUT_CHARACTERS:
        return None
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def caller_text(caller: Caller | str) -> str:
    """Who asked: its name in a person's words where that is known, as on the card; else the program without
    the number of the process, such as `claude via mcp`."""
    if isinstance(caller, Caller) and caller.name:
        return caller_name(caller)
    return _PROCESS.sub("", str(caller))


def decided_text(call: Activity) -> str:
    """Who decided and how fast, such as `you approved 2.1s`, or what let the call run unasked."""
    decision = call.decision
    if decision is not None:
        return decision_text(decision.outcome, decision.took_ms)
    if call.result is None and call.phase is Phase.WAITING_APPROVAL:
        return "waits for you"
    return authority_text(call.authority)


def decision_words(call: Activity) -> str:
    """Who decided, how fast, why, and what permitted the call; empty where nobody has decided yet."""
    decision = call.decision
    reason = f"“{decision.reason}”" if decision is not None and decision.reason else ""
    by = f"by {decision.by}" if decision is not None and decision.by else ""
    return " · ".join(part for part in (decided_text(call), by, reason, call.authority) if part)


def decision_text(outcome: RequestState, took_ms: int) -> str:
    """The end of a request and how long it took."""
    return f"{_OUTCOMES.get(outcome, outcome.value)} {milliseconds_text(took_ms)}"


def authority_text(authority: str) -> str:
    """What let a call run without a question, without the id of the lease."""
    kind, _, rest = authority.partition(" ")
    if kind == "policy":
        return f"policy {rest.rpartition('/')[2]}" if rest != "default" else "policy default"
    return kind if kind in ("lease", "request") else authority
