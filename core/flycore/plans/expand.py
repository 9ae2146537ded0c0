"""Expands a plan's input into its steps, and checks each step against the schema of its tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flycore.catalog.schemas import Violation, check_input
from flycore.model.base import Value
from flycore.model.catalog import Capability
from flycore.model.json import Json, JsonObject
from flycore.plans.definitions import FOCUS, PLANS, WAIT, WAIT_FIELDS, PlanDefinition

_AROUND = frozenset(("action", "plan", "captureAfter"))


class Step(Value, frozen=True, kw_only=True):
    """One action: a call of `tool` with `input`, or, without a tool, `ms` milliseconds of waiting."""

    action: str
    pointer: str
    """The JSON pointer to the step in the plan's input."""
    tool: str = ""
    input: JsonObject = {}  # noqa: RUF012 - msgspec gives each instance its own
    ms: int = 0
    unknown_fields: tuple[str, ...] = ()
    """Fields of the step that its action does not have."""


def expand(tool: str, input: JsonObject) -> tuple[Step, ...]:
    """The steps of a plan, in order; `captureAfter` adds one at the end. The input must fit the plan's
    schema.

    A step that names no window acts in the window of the `focus_app` before it, where there is one.
    """
    plan = PLANS[tool]
    steps: list[Step] = []
    focused: Json = None
    for pointer, given in _actions(input):
        if "window" not in given and focused is not None and _takes_window(plan, given["action"]):
            given = {**given, "window": focused}
        steps.append(_step(plan, pointer, given))
        focused = given.get("app") if given["action"] == FOCUS else focused
    if input.get("captureAfter") is True:
        steps.append(_step(plan, "/captureAfter", {"action": plan.capture}))
    return tuple(steps)


def step_violations(steps: tuple[Step, ...], capabilities: Mapping[str, Capability]) -> tuple[Violation, ...]:
    """The violations of steps against the schemas of their tools. The plan's own schema allows every field
    for every action."""
    return tuple(violation for step in steps for violation in _step_violations(step, capabilities))


def _actions(input: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    plan = input.get("plan")
    if isinstance(plan, list):
        for number, given in enumerate(plan):
            if isinstance(given, dict):
                yield f"/plan/{number}", given
    else:
        single = {name: value for name, value in input.items() if name == "action" or name not in _AROUND}
        yield "", single


def _takes_window(plan: PlanDefinition, action: Json) -> bool:
    return isinstance(action, str) and action != WAIT and "window" in plan.actions[action].fields


def _step(plan: PlanDefinition, pointer: str, given: JsonObject) -> Step:
    action = str(given["action"])
    fields = {name: value for name, value in given.items() if name != "action"}
    if action == WAIT:
        stray = tuple(name for name in fields if name not in WAIT_FIELDS)
        ms = fields.get("ms")
        return Step(action=action, pointer=pointer, ms=ms if isinstance(ms, int) else 0, unknown_fields=stray)
    atomic = plan.actions[action]
    own: JsonObject = {"action": atomic.action} if atomic.action else {}
    own |= {atomic.fields[name]: value for name, value in fields.items() if name in atomic.fields}
    stray = tuple(name for name in fields if name not in atomic.fields)
    return Step(action=action, pointer=pointer, tool=atomic.tool, input=own, unknown_fields=stray)


def _step_violations(step: Step, capabilities: Mapping[str, Capability]) -> Iterator[Violation]:
    for name in step.unknown_fields:
        yield Violation(
            pointer=f"{step.pointer}/{name}", message=f"the action {step.action} has no such field"
        )
    if step.tool and not step.unknown_fields:
        _, found = check_input(capabilities[step.tool].input_schema, step.input)
        for item in found:
            yield Violation(
                pointer=step.pointer, message=f"as {step.tool}, {item.pointer or 'whole'}: {item.message}"
            )
