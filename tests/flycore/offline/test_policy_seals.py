"""`policy explain` says of a program whose seal is partial what a call would meet: no rule allows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from flycore.model.enums import Decision
from flycore.offline.policy import read_offline_policy
from kits.kernel import ECHO, Root


@pytest.mark.parametrize(("cwd", "decision"), [("empty", Decision.ALLOW), ("app", Decision.ASK)])
def test_an_allow_of_a_partial_seal_asks(cwd: str, decision: Decision, tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.sidecar("own", ECHO, cwd=cwd)
    root.policy({"tool": "own.do", "decision": "allow", "because": "test"})
    offline = read_offline_policy(root.places, root.environ)
    found = offline.evaluate(offline.root_state.files.policy, "own.do", {}, None)
    assert found.decision is decision
    assert not root.places.seals_file.exists()
