"""What a person calls a process, from its path and its command line."""

from __future__ import annotations

from flycore.approval.caller_names import known_agents, name_of
from kits.tables import each_row

NODE, PYTHON = "/usr/bin/node", "/usr/bin/python3.12"


@each_row(
    ("executable", "arguments", "name"),
    [
        ("/home/a/.local/share/claude/versions/2.1.90", "claude", "Claude Code"),
        ("/usr/bin/claude", "claude --resume", "Claude Code"),
        (NODE, "node /usr/lib/node_modules/@anthropic-ai/claude-code/cli.js", "Claude Code"),
        (NODE, "node --import x.mjs /n/node_modules/@openai/codex/bin/codex.js", "Codex"),
        (PYTHON, "python3 -X utf8 -m aider --yes", "Aider"),
        (PYTHON, "python3 /home/a/.venv/bin/aider", "Aider"),
        ("/snap/zed/zeditor", "zeditor", "Zed"),
        (NODE, "node /srv/node_modules/mcp-notes/dist/index.js", "mcp-notes"),
        (NODE, "node /srv/node_modules/.bin/notes", "notes"),
        ("/usr/bin/bun", "bun run ./agent/index.ts", "agent/index.ts"),
        ("/usr/bin/deno", "deno run main.ts", "main.ts"),
        (PYTHON, "python3 -u ./tools/nightly.py", "nightly.py"),
        (PYTHON, "python3 -mhttp.server", "http"),
        (PYTHON, "python3 -c pass", ""),
        (PYTHON, "python3", ""),
        (PYTHON, "python3 -", ""),
        (NODE, "node -e 1", ""),
        ("worker", "", "worker"),
        ("/opt/thing/agentd", "agentd", "agentd"),
        ("/x/" + "y" * 300, "y", "y" * 80),
    ],
)
def test_a_process_has_the_name_that_a_person_would_say(executable: str, arguments: str, name: str) -> None:
    assert name_of(executable, tuple(arguments.split())) == name


def test_every_known_agent_says_what_was_looked_at() -> None:
    names = [agent.name for agent in known_agents()]
    assert len(names) == len(set(names)) >= 9
    assert all(agent.seen and (agent.programs or agent.scripts) for agent in known_agents())
    programs = [program for agent in known_agents() for program in agent.programs]
    assert len(programs) == len(set(programs))
