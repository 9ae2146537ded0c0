"""The wire formats of the public interfaces of models: what a request offers, and how an answer is written.

Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini `generateContent`, each as a stream
of server-sent events or as one document. Only what a scripted model needs is here.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

NUMBERS = itertools.count(1)


class OfferedTool(NamedTuple):
    """A tool that a request offers to the model."""

    name: str
    schema: Any
    place: str
    """Where it stands in the request, as the interface writes it in errors."""
    namespace: str = ""

    @property
    def full_name(self) -> str:
        """The name with that of its namespace."""
        return f"{self.namespace}{self.name}"


class ModelRequest(NamedTuple):
    """What a request says, whatever its format."""

    tools: tuple[OfferedTool, ...]
    calls_made: int
    """How many calls the conversation contains already."""
    results: tuple[str, ...]
    """What the tools answered to them, as text."""
    streams: bool


class ToolUse(NamedTuple):
    """The model calls a tool."""

    tool: OfferedTool
    input: dict[str, Any]


class ModelProtocol(NamedTuple):
    """One interface."""

    id: str
    interface: str
    """Whose rules about tools hold: a key of `model_rules`."""
    read: Callable[[str, dict[str, Any]], ModelRequest]
    write: Callable[[ToolUse | str], list[tuple[str, dict[str, Any]]]]
    """The events of an answer: their names, and what they contain."""
    whole: Callable[[ToolUse | str], dict[str, Any]]
    """The answer as one document."""
    refusal: Callable[[str, str], dict[str, Any]]
    """The document that goes with the status 400, of a message and the place that it is about."""
    names_events: bool = True
    ends_with: str = ""


def text_of(content: Any) -> str:
    """Every text within a value, in order."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return " ".join(filter(None, (text_of(value) for value in content.values())))
    if isinstance(content, list):
        return " ".join(filter(None, map(text_of, content)))
    return ""


# --- Anthropic Messages: https://docs.claude.com/en/api/messages and /en/docs/build-with-claude/streaming


def _read_messages(path: str, body: dict[str, Any]) -> ModelRequest:
    parts = [
        part
        for message in body["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
    ]
    return ModelRequest(
        tuple(
            OfferedTool(tool["name"], tool["input_schema"], f"tools.{number}.custom")
            for number, tool in enumerate(body.get("tools", ()))
            if tool.get("type", "custom") == "custom"
        ),
        sum(part["type"] == "tool_use" for part in parts),
        tuple(text_of(part.get("content")) for part in parts if part["type"] == "tool_result"),
        bool(body.get("stream")),
    )


def _block(turn: ToolUse | str) -> dict[str, Any]:
    if isinstance(turn, str):
        return {"type": "text", "text": turn}
    name = turn.tool.full_name
    return {"type": "tool_use", "id": f"toolu_{next(NUMBERS):024}", "name": name, "input": turn.input}


def _message(turn: ToolUse | str) -> dict[str, Any]:
    return {
        "id": f"msg_{next(NUMBERS):024}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [_block(turn)],
        "stop_reason": "end_turn" if isinstance(turn, str) else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 10},
    }


def _write_messages(turn: ToolUse | str) -> list[tuple[str, dict[str, Any]]]:
    whole = _message(turn)
    (block,) = whole["content"]
    if isinstance(turn, str):
        begun, delta = {**block, "text": ""}, {"type": "text_delta", "text": turn}
    else:
        begun = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(turn.input)}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": begun},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 10}},
        {"type": "message_stop"},
    ]
    return [(event["type"], event) for event in events]


def _refuse_messages(message: str, place: str) -> dict[str, Any]:
    error = {"type": "invalid_request_error", "message": f"{place}: {message}"}
    return {"type": "error", "error": error, "request_id": f"req_{next(NUMBERS):024}"}


# --- OpenAI Responses: https://platform.openai.com/docs/api-reference/responses and /responses-streaming


def _response_tools(tools: list[dict[str, Any]], place: str, namespace: str) -> Iterator[OfferedTool]:
    for number, tool in enumerate(tools):
        here = f"{place}[{number}]"
        if tool["type"] == "function":
            yield OfferedTool(tool["name"], tool["parameters"], here, namespace)
        elif tool["type"] == "namespace":
            yield from _response_tools(tool["tools"], f"{here}.tools", tool["name"])


def _read_responses(path: str, body: dict[str, Any]) -> ModelRequest:
    items = body["input"] if isinstance(body["input"], list) else []
    return ModelRequest(
        tuple(_response_tools(body.get("tools", []), "tools", "")),
        sum(item.get("type") == "function_call" for item in items),
        tuple(text_of(item["output"]) for item in items if item.get("type") == "function_call_output"),
        bool(body.get("stream")),
    )


def _item(turn: ToolUse | str) -> dict[str, Any]:
    number = next(NUMBERS)
    if isinstance(turn, str):
        text = {"type": "output_text", "text": turn, "annotations": []}
        message = {"type": "message", "role": "assistant", "content": [text], "status": "completed"}
        return {"id": f"msg_{number}", **message}
    return {
        "id": f"fc_{number}",
        "type": "function_call",
        "call_id": f"call_{number}",
        "name": turn.tool.name,
        **({"namespace": turn.tool.namespace} if turn.tool.namespace else {}),
        "arguments": json.dumps(turn.input),
        "status": "completed",
    }


def _response(turn: ToolUse | str) -> dict[str, Any]:
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": f"resp_{next(NUMBERS)}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": "scripted",
        "output": [_item(turn)],
        "usage": {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20, **details},
    }


def _write_responses(turn: ToolUse | str) -> list[tuple[str, dict[str, Any]]]:
    whole = _response(turn)
    (item,) = whole["output"]
    at = {"output_index": 0, "item_id": item["id"]}
    part = {**at, "content_index": 0}
    begun: dict[str, Any] = {**whole, "status": "in_progress", "output": [], "usage": None}
    empty = {**item, "status": "in_progress", "content": []}
    middle: list[dict[str, Any]] = [
        {"type": "response.output_item.added", "output_index": 0, "item": empty},
        {"type": "response.output_text.delta", **part, "delta": turn},
        {"type": "response.output_text.done", **part, "text": turn},
    ]
    if not isinstance(turn, str):
        words = item["arguments"]
        empty = {**item, "status": "in_progress", "arguments": ""}
        middle = [
            {"type": "response.output_item.added", "output_index": 0, "item": empty},
            {"type": "response.function_call_arguments.delta", **at, "delta": words},
            {"type": "response.function_call_arguments.done", **at, "arguments": words},
        ]
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        *middle,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return [(event["type"], {**event, "sequence_number": number}) for number, event in enumerate(events)]


def _refuse_openai(message: str, place: str) -> dict[str, Any]:
    code = "invalid_function_parameters" if place.endswith("parameters") else "invalid_value"
    error = {"message": message, "type": "invalid_request_error", "param": place, "code": code}
    return {"error": error}


# --- OpenAI Chat Completions: https://platform.openai.com/docs/api-reference/chat and /chat-streaming


def _read_chat(path: str, body: dict[str, Any]) -> ModelRequest:
    messages = body["messages"]
    return ModelRequest(
        tuple(
            OfferedTool(
                tool["function"]["name"], tool["function"].get("parameters"), f"tools[{number}].function"
            )
            for number, tool in enumerate(body.get("tools") or ())
        ),
        sum(len(message.get("tool_calls") or ()) for message in messages),
        tuple(text_of(message["content"]) for message in messages if message["role"] == "tool"),
        bool(body.get("stream")),
    )


def _completion(turn: ToolUse | str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn}
    if not isinstance(turn, str):
        function = {"name": turn.tool.full_name, "arguments": json.dumps(turn.input)}
        call = {"id": f"call_{next(NUMBERS)}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    reason = "stop" if isinstance(turn, str) else "tool_calls"
    return {
        "id": f"chatcmpl-{next(NUMBERS)}",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20},
    }


def _write_chat(turn: ToolUse | str) -> list[tuple[str, dict[str, Any]]]:
    whole = _completion(turn)
    (choice,) = whole["choices"]
    delta = choice["message"]
    if "tool_calls" in delta:
        calls = [{"index": number, **call} for number, call in enumerate(delta["tool_calls"])]
        delta = {**delta, "tool_calls": calls}
    chunk = {**whole, "object": "chat.completion.chunk", "usage": None}
    first = {"index": 0, "delta": delta, "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    return [
        ("", {**chunk, "choices": [first]}),
        ("", {**chunk, "choices": [last]}),
        ("", {**chunk, "choices": [], "usage": whole["usage"]}),
    ]


# --- Gemini: https://ai.google.dev/api/generate-content


def _read_gemini(path: str, body: dict[str, Any]) -> ModelRequest:
    parts = [part for content in body.get("contents", ()) for part in content.get("parts", ())]
    return ModelRequest(
        tuple(
            OfferedTool(
                declared["name"],
                declared.get("parametersJsonSchema", declared.get("parameters")),
                f"tools[{group}].function_declarations[{number}]"
                + ("" if "parametersJsonSchema" in declared else ".parameters"),
            )
            for group, tool in enumerate(body.get("tools") or ())
            for number, declared in enumerate(tool.get("functionDeclarations", ()))
        ),
        sum("functionCall" in part for part in parts),
        tuple(text_of(part["functionResponse"]) for part in parts if "functionResponse" in part),
        ":stream" in path,
    )


def _candidate(turn: ToolUse | str) -> dict[str, Any]:
    part: dict[str, Any] = {"text": turn}
    if not isinstance(turn, str):
        part = {"functionCall": {"name": turn.tool.full_name, "args": turn.input}}
    content = {"role": "model", "parts": [part]}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20},
        "modelVersion": "scripted",
        "responseId": f"r{next(NUMBERS)}",
    }


def _refuse_gemini(message: str, place: str) -> dict[str, Any]:
    whole = f"* GenerateContentRequest.{place}: {message}\n"
    return {"error": {"code": 400, "message": whole, "status": "INVALID_ARGUMENT"}}


MESSAGES = ModelProtocol("messages", "anthropic", _read_messages, _write_messages, _message, _refuse_messages)
RESPONSES = ModelProtocol("responses", "openai", _read_responses, _write_responses, _response, _refuse_openai)
CHAT = ModelProtocol(
    "chat",
    "openai",
    _read_chat,
    _write_chat,
    _completion,
    _refuse_openai,
    names_events=False,
    ends_with="[DONE]",
)
GEMINI = ModelProtocol(
    "gemini",
    "gemini",
    _read_gemini,
    lambda turn: [("", _candidate(turn))],
    _candidate,
    _refuse_gemini,
    names_events=False,
)


def protocol_of(path: str) -> ModelProtocol | None:
    """The interface that a request for the path is for; None where it is for something else."""
    path = path.partition("?")[0]
    if path.endswith("/messages"):
        return MESSAGES
    if path.endswith("/responses"):
        return RESPONSES
    if path.endswith("/chat/completions"):
        return CHAT
    return GEMINI if path.endswith((":generateContent", ":streamGenerateContent")) else None
