#!/usr/bin/env python3
"""Repeats a text. A tool with `parameters`: it answers with `success`, and with `result` or `error`."""

import json
import sys

SCHEMA = {
    "name": "echo",
    "description": "Repeat a text, up to ten times.",
    "parameters": {
        "text": {"type": "string", "description": "The text to repeat.", "required": True},
        "times": {"type": "integer", "description": "How often, from 1 to 10.", "default": 1},
    },
}


def answer(data: dict) -> dict:
    """Return what is printed for that input. Its types were checked before, and `times` was filled in."""
    if not 1 <= data["times"] <= 10:
        return {"success": False, "error": "times must be from 1 to 10"}
    text = " ".join([data["text"]] * data["times"])
    return {"success": True, "result": text, "metadata": {"characters": len(text)}}


if "--schema" in sys.argv:
    print(json.dumps(SCHEMA))
else:
    print(json.dumps(answer(json.load(sys.stdin))))
