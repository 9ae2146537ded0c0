"""Which atomic call every action of a plan is, and what is refused before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from flycore.catalog.builtin import KNOWN
from flycore.catalog.schemas import check_input, check_output
from flycore.model.call import Artifact, ToolResult
from flycore.model.enums import Status
from flycore.plans.definitions import PLANS, WAIT
from flycore.plans.expand import expand, step_violations
from flycore.plans.report import MOST_OUTPUT_BYTES, FinishedStep, output_of
from kits.tables import each_row

COMPUTER: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    ({"action": "capture"}, "screen.screenshot", {}),
    *(
        (
            {"action": action, "x": 3, "y": 4, "window": "w"},
            "computer.mouse",
            {"action": action, "x": 3, "y": 4, "window": "w"},
        )
        for action in ("click", "double_click", "right_click", "middle_click")
    ),
    (
        {"action": "drag", "x": 1, "y": 2, "toX": 3, "toY": 4},
        "computer.mouse",
        {"action": "drag", "x": 1, "y": 2, "toX": 3, "toY": 4},
    ),
    (
        {"action": "scroll", "x": 1, "y": 2, "dy": -3},
        "computer.mouse",
        {"action": "scroll", "x": 1, "y": 2, "dy": -3},
    ),
    ({"action": "type", "text": "ä $(x)"}, "computer.keyboard", {"action": "type", "text": "ä $(x)"}),
    ({"action": "key", "keys": "ctrl+s"}, "computer.keyboard", {"action": "key", "keys": "ctrl+s"}),
    ({"action": "focus_app", "app": "editor"}, "computer.window", {"action": "focus", "window": "editor"}),
    ({"action": "list_apps"}, "computer.window", {"action": "list"}),
]
URL = "https://example.org/"
BROWSER: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    ({"action": "open", "url": URL}, "browser.open", {"url": URL}),
    ({"action": "navigate", "url": URL}, "browser.navigate", {"url": URL}),
    ({"action": "snapshot"}, "browser.snapshot", {}),
    (
        {"action": "screenshot", "path": "a.png", "fullPage": True},
        "browser.screenshot",
        {"path": "a.png", "fullPage": True},
    ),
    ({"action": "click", "target": "e1"}, "browser.click", {"target": "e1"}),
    ({"action": "type", "target": "e1", "text": "hi"}, "browser.type", {"target": "e1", "text": "hi"}),
    ({"action": "evaluate", "script": "1+1"}, "browser.evaluate", {"script": "1+1"}),
]
CASES = [("computer.use", *case) for case in COMPUTER] + [("browser.use", *case) for case in BROWSER]


@each_row(("plan", "given", "tool", "input"), CASES)
def test_an_action_is_one_atomic_call(
    plan: str, given: dict[str, Any], tool: str, input: dict[str, Any]
) -> None:
    for whole in (given, {"plan": [given]}):
        assert check_input(KNOWN[plan].input_schema, whole)[1] == ()
        (step,) = expand(plan, whole)
        assert (step.tool, step.input, step.unknown_fields) == (tool, input, ())
        assert step_violations((step,), KNOWN) == ()


@pytest.mark.parametrize("plan", list(PLANS))
def test_the_table_has_every_action_of_the_schema_and_every_tool_of_the_capability(plan: str) -> None:
    properties: Any = KNOWN[plan].input_schema["properties"]
    assert {*properties["action"]["enum"]} == {*PLANS[plan].actions, WAIT}
    assert {atomic.tool for atomic in PLANS[plan].actions.values()} == {*KNOWN[plan].over}
    assert {given["action"] for name, given, _, _ in CASES if name == plan} == {*PLANS[plan].actions}
    assert not {*KNOWN[plan].over} & {*PLANS}


def test_a_wait_is_no_call() -> None:
    (step,) = expand("computer.use", {"action": "wait", "ms": 250})
    assert (step.tool, step.ms, step_violations((step,), KNOWN)) == ("", 250, ())


@pytest.mark.parametrize(
    ("plan", "given", "last"),
    [
        ("computer.use", {"action": "list_apps"}, "capture"),
        ("browser.use", {"action": "snapshot"}, "screenshot"),
    ],
)
def test_capture_after_adds_a_picture_at_the_end(plan: str, given: dict[str, Any], last: str) -> None:
    steps = expand(plan, {"plan": [given, given], "captureAfter": True})
    assert [step.action for step in steps] == [given["action"], given["action"], last]
    assert [step.action for step in expand(plan, {**given, "captureAfter": True})] == [given["action"], last]
    assert len(expand(plan, {**given, "captureAfter": False})) == 1


def test_the_steps_after_a_focus_act_in_its_window_unless_they_name_one() -> None:
    steps = expand(
        "computer.use",
        {
            "plan": [
                {"action": "click", "x": 1, "y": 1},
                {"action": "focus_app", "app": "editor"},
                {"action": "wait", "ms": 1},
                {"action": "type", "text": "hi"},
                {"action": "key", "keys": "Return", "window": "other"},
                {"action": "list_apps"},
                {"action": "capture"},
                {"action": "focus_app", "app": "mail"},
                {"action": "click", "x": 1, "y": 1},
            ]
        },
    )
    assert [step.input.get("window") for step in steps] == [
        None, "editor", None, "editor", "other", None, None, "mail", "mail",
    ]  # fmt: skip
    assert step_violations(steps, KNOWN) == ()


@each_row(
    ("plan", "step", "pointer", "said"),
    [
        ("computer.use", {"action": "scroll", "x": 1, "y": 1}, "/plan/1", "computer.mouse"),
        ("computer.use", {"action": "click", "x": 1, "y": 1, "text": "rm"}, "/plan/1/text", "click"),
        ("computer.use", {"action": "wait", "ms": 5, "window": "w"}, "/plan/1/window", "wait"),
        ("computer.use", {"action": "focus_app", "app": "a", "window": "b"}, "/plan/1/window", "focus_app"),
        ("browser.use", {"action": "snapshot", "url": URL}, "/plan/1/url", "snapshot"),
    ],
)
def test_what_the_schema_of_a_plan_lets_through_is_refused_by_the_tools(
    plan: str, step: dict[str, Any], pointer: str, said: str
) -> None:
    whole = {"plan": [{"action": "wait", "ms": 1}, step]}
    assert check_input(KNOWN[plan].input_schema, whole)[1] == ()
    (found,) = step_violations(expand(plan, whole), KNOWN)
    assert found.pointer == pointer
    assert said in found.message


@pytest.mark.parametrize("nested", ["computer.use", "browser.use", "plan"])
def test_a_plan_contains_no_plan(nested: str) -> None:
    for plan in PLANS:
        for step in ({"action": nested}, {"action": "wait", "ms": 1, "plan": []}):
            assert check_input(KNOWN[plan].input_schema, {"plan": [step]})[1]


def _done(output: Any, number: int) -> FinishedStep:
    (step,) = expand("browser.use", {"action": "snapshot"})
    file = Artifact(path=f"/a/{number}.png", mime_type="image/png", bytes=1)
    return FinishedStep(
        step=step,
        result=ToolResult(
            status=Status.SUCCESS, tool=step.tool, sidecar="s", call_id=f"c{number}", output=output,
            artifacts=(file,),
        ),
    )  # fmt: skip


def test_outputs_are_kept_up_to_a_bound_and_fit_their_schema() -> None:
    large = {"tree": "x" * (MOST_OUTPUT_BYTES // 2)}
    done = [_done(large, 1), _done(large, 2), _done({"tree": "small"}, 3)]
    output: Any = output_of([item.step for item in done], done)
    assert check_output(KNOWN["browser.use"].output_schema, output) == ()
    assert [("output" in step, step.get("outputLeftOut", 0) > 0) for step in output["steps"]] == [
        (True, False), (False, True), (True, False),
    ]  # fmt: skip
    assert [file["path"] for file in output["artifacts"]] == ["/a/1.png", "/a/2.png", "/a/3.png"]
