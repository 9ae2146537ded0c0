"""`flytui approvals` beside a request that waits: one row, with the sentence of its card."""

from __future__ import annotations

from kits.command_line import Desk


def test_a_request_is_listed_with_its_effect_and_its_caller(desk: Desk) -> None:
    desk.trust()
    with desk.terminal() as console:
        console.until("policy ok")
        call = desk.start("call", "try.echo", "message=hello there")
        console.until_so("the request", lambda: bool(desk.document("approvals")["asks"]))
        [ask] = desk.document("approvals")["asks"]
        heading, row = desk.run("approvals", "list").stdout.splitlines()
        assert heading.split() == ["ID", "RISK", "STATE", "ASKED", "CALLER", "TOOL", "EFFECT"]
        assert row.split()[:3] == [ask["request"]["id"], ask["request"]["risk"], "waiting"]
        assert row.endswith(f"try.echo  {ask['request']['effect']}")
        assert '"hello there"' in ask["request"]["effect"]
        assert "(pid" not in row
        call.terminate()
        call.communicate(timeout=60)
