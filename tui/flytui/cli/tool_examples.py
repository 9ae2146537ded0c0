"""The examples of a tool on the command line: each is a call through the kernel, whose output is compared."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from flycore.model.call import ToolResult
from flycore.model.diagnostics import nearest
from flycore.model.enums import Status
from flycore.model.json import Json, canonical_json
from flycore.model.tool_exec import ExampleCall
from flytui.cli.commands.call import call_tool
from flytui.cli.documents import ExampleResult, ExampleState, ToolExamplesDocument
from flytui.cli.invocation import Invocation
from flytui.cli.kernel_query import read_catalog
from flytui.cli.output import print_error, print_json, print_line

EXIT_DIFFERS = 1
EXIT_NOT_FOUND = 3


def run_examples(invocation: Invocation, name: str, wait_approver: float) -> int:
    """Runs the examples of a tool and prints what each gives; returns the exit code."""
    catalog = read_catalog(invocation.places(), probes=False)
    view = catalog.capability(name)
    if view is None:
        near = nearest(name, (found.capability.name for found in catalog.capabilities), count=1)
        hint = f"did you mean {near[0]}?" if near else "flytui catalog lists every tool"
        print_error(f"no tool is named {name}: {hint}")
        return EXIT_NOT_FOUND
    results: list[ExampleResult] = []
    code = 0
    for example in view.capability.example_calls:
        result, interrupted = _run(invocation, name, example, wait_approver)
        results.append(compared(example, result))
        if interrupted:
            return interrupted
        code = code or _exit_code(results[-1], result)
    document = ToolExamplesDocument(tool=name, examples=tuple(results))
    if invocation.as_json:
        print_json(document)
    else:
        for line in _lines(document.tool, document.examples):
            print_line(line)
    return code


def _run(
    invocation: Invocation, name: str, example: ExampleCall, wait_approver: float
) -> tuple[ToolResult, int]:
    said = f"flytui tools test: {example.description}" if example.description else "flytui tools test"
    return call_tool(
        invocation, name, (json.dumps(example.params),), None, said=said, wait_approver=wait_approver
    )


def compared(example: ExampleCall, result: ToolResult) -> ExampleResult:
    """Returns what an example gave, beside what it expects."""
    if result.status is not Status.SUCCESS:
        state = ExampleState.FAILED
    elif isinstance(example.expected_output, msgspec.UnsetType):
        state = ExampleState.RAN
    else:
        same = is_expected(example.expected_output, result.output)
        state = ExampleState.SAME if same else ExampleState.DIFFERS
    return ExampleResult(
        description=example.description,
        params=example.params,
        state=state,
        expected=example.expected_output,
        output=result.output,
        error=result.error,
        warnings=result.warnings,
    )


def is_expected(expected: Json, output: Json) -> bool:
    """Returns whether the output is the expected one.

    An expected text may hold the output as JSON. White space at the ends of two texts does not count: a block
    of YAML ends with a line break.
    """
    if isinstance(expected, str) and isinstance(output, str):
        return expected.strip() == output.strip()
    if isinstance(expected, str):
        try:
            expected = json.loads(expected)
        except ValueError:
            return False
    return canonical_json(expected) == canonical_json(output)


def _exit_code(example: ExampleResult, result: ToolResult) -> int:
    if example.state is ExampleState.FAILED:
        return result.exit_status
    return EXIT_DIFFERS if example.state is ExampleState.DIFFERS else 0


def _lines(tool: str, examples: tuple[ExampleResult, ...]) -> Iterator[str]:
    if not examples:
        yield f"{tool} has no examples: add params and expected_output under examples of the tool"
        return
    for number, example in enumerate(examples, 1):
        yield f"{number}. {example.description or 'example'}: {example.state.value}"
        yield f"   params    {_shown(example.params)}"
        if not isinstance(example.expected, msgspec.UnsetType):
            yield f"   expected  {_shown(example.expected)}"
        if example.error is not None:
            message = example.error.message.replace("\n", "\n             ")
            yield f"   error     {example.error.code}: {message}"
        else:
            yield f"   actual    {_shown(example.output)}"
        for warning in example.warnings:
            yield f"   warning   {warning}"
    count = sum(example.state in (ExampleState.SAME, ExampleState.RAN) for example in examples)
    yield f"{count} of {len(examples)} examples of {tool} are as expected"


def _shown(value: Json) -> str:
    return json.dumps(value.strip() if isinstance(value, str) else value, ensure_ascii=False)
