"""Questions of the published server `everything`: a person answers, and the agent gets only the result."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.enums import QuestionKind
from flycore.model.question import Question
from kits.command import COMMAND
from kits.kernel import Root, approver_of, until
from kits.mcp_client_process import answers_of
from kits.mcp_servers import capability
from kits.programs import needs, needs_bubblewrap
from kits.published_servers import SERVERS, approved, find_servers, is_installed
from kits.unix_socket import served

pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.timeout(180)]

TOOL = "everything.trigger-elicitation-request"


async def question_of(kernel: Kernel) -> Question:
    """The question of the server, once it waits."""

    def found() -> Question | None:
        return next((item for item in kernel.questions() if item.kind is QuestionKind.SERVER), None)

    question: Question = await until(found, patience=90)
    return question


async def test_a_person_answers_what_the_server_asks(tmp_path: Path) -> None:
    needs_bubblewrap()
    root = Root(tmp_path)
    find_servers(root)
    if not is_installed(root, SERVERS["everything"]):
        needs("mcp-server-everything")
    root.sidecars["everything"] = {"kind": "mcp", "command": "mcp-server-everything", "permissions": {}}
    root.write()
    texts: list[str] = []
    async with served(root) as kernel, approved(kernel):
        await until(lambda: capability(kernel, TOOL), patience=90)
        argv = COMMAND.launcher("flytui", "--root", str(root.folder), "mcp")
        name = TOOL.replace(".", "_")

        async def ask() -> None:
            (answer,) = await answers_of(
                argv, root.environ, root.folder, [("tools/call", {"name": name, "arguments": {}})]
            )
            texts.append(json.dumps(answer))

        for option, content in (("accept", {"name": "Ada", "integer": 7}), ("decline", None)):
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                question = await question_of(kernel)
                assert "server says: Please provide inputs for the following fields:" in question.lines
                outcome = await approver_of(kernel).answer(question.id, option, content=content)
                assert outcome.accepted, outcome.why_not
    filled, declined = texts
    assert "Ada" in filled
    assert "declined" in declined
    # The agent got no word of the question itself.
    assert "Please provide inputs" not in filled + declined
