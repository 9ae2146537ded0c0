"""Writes the table of docs/clients/README.md from what the tests of the programs found:
python docs/make_client_table.py

The tests are `FLYTUI_SUITES=full pytest -m suite tests/clients`, which write docs/clients/results.json.
"""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE / "clients" / "README.md"
RESULTS = HERE / "clients" / "results.json"
PACKAGES = HERE.parent / "tests" / "clients" / "package.json"
HEADING = "## What was tried\n"
CLIENTS = {
    "claude-code": ("Claude Code", "@anthropic-ai/claude-code"),
    "codex": ("Codex", "@openai/codex"),
    "gemini": ("Gemini CLI", "@google/gemini-cli"),
    "qwen": ("Qwen Code", "@qwen-code/qwen-code"),
    "copilot": ("Copilot CLI", "@github/copilot"),
    "opencode": ("opencode", "opencode-ai"),
}
SCENARIOS = {
    "tools": "every tool is offered to the model, and the model's interface refuses none",
    "first_turn": "the first request to the model has every tool",
    "allowed": "a call that needs nobody is answered",
    "approved": "a call that a person approves is answered in place",
    "denied": "a call that a person denies tells the model the reason",
    "no_console": "without a console, a call that asks is refused, and says why",
    "console_after": "a console that was opened after the program is asked",
    "interrupted": "interrupting the program withdraws the call that waits",
    "killed": "killing the program withdraws the call that waits",
    "three_minutes": "a person approves after three minutes",
    "hook_absent": "no hook: the program's own command runs as its own settings say",
    "hook_allow": "hook: the program's own command runs once a person approved it",
    "hook_deny": "hook: the program's own command is denied, and the model reads the reason",
    "hook_killed": "hook: killing the program withdraws what the hook asks",
    "hook_broken": "hook: the program's own command does not run where the hook fails",
}


def table_part() -> str:
    """Returns the last part of the page: the versions, and a row for each scenario."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    versions = json.loads(PACKAGES.read_text(encoding="utf-8"))["devDependencies"]
    heads = [f"{title} {versions[package]}" for title, package in CLIENTS.values()]
    lines = [HEADING, _row("", *heads), _row(*["---"] * (len(heads) + 1))]
    for scenario, words in SCENARIOS.items():
        cells = results.get(scenario, {})
        lines.append(_row(words, *(cells.get(client, "not tried") for client in CLIENTS)))
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def page(text: str) -> str:
    """Returns the page with its last part made anew."""
    return text.partition(HEADING)[0] + table_part()


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
