"""Tools under names that agents know from elsewhere, with the shapes they expect."""

from __future__ import annotations

from mcp_types import Tool, ToolAnnotations

CALL_ALIAS = "glee_tool"
LIST_ALIAS = "glee_tools_list"
ALIASES = (
    Tool(
        name=CALL_ALIAS,
        title=CALL_ALIAS,
        description="Calls the tool of that name with these params and returns its bare output.",
        input_schema={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "A name of glee_tools_list."},
                "params": {"type": "object", "description": "The tool's input.", "default": {}},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
        ),
    ),
    Tool(
        name=LIST_ALIAS,
        title=LIST_ALIAS,
        description="Lists every tool that glee_tool can call, as [{name, description}].",
        input_schema={"type": "object", "properties": {}, "additionalProperties": False},
        annotations=ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    ),
)
