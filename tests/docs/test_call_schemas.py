"""The schemas of a call's request and result are those of what is really sent and answered."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from flycore.registry.published_schemas import published_schema
from flycore.runners.one_shot import ProcessJsonJob, request_line
from kits.command_line import REGISTRY, Desk

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A trusted root with a tool that echoes."""
    made = Desk(tmp_path / "root", tmp_path / "home")
    made.root.mkdir()
    (made.home / "run").mkdir(parents=True, mode=0o700)
    made.write(REGISTRY)
    made.allow()
    made.trust()
    return made


def violations(name: str, value: Any) -> list[str]:
    return [
        str(error) for error in jsonschema_rs.Draft202012Validator(published_schema(name)).iter_errors(value)
    ]


def test_the_file_of_the_result_is_made_from_its_value() -> None:
    made = runpy.run_path(str(DOCS / "make_schemas.py"))
    assert made["result_schema"]() == published_schema("result")


def test_real_results_are_as_the_schema_says(desk: Desk) -> None:
    for words, status in (
        (("try.echo", "message=hello"), "success"),
        (("try.echo", "delayMs=1"), "failed"),
        (("no.tool",), "failed"),
        (("web.search", "query=x"), "unavailable"),
    ):
        result = json.loads(desk.run("call", *words, "--json").stdout)
        assert result["status"] == status
        assert violations("result", result) == []
        assert violations("result", {**result, "status": "done"})


@pytest.mark.parametrize("persistent", [False, True])
def test_a_real_request_is_as_the_schema_says(persistent: bool) -> None:
    job = ProcessJsonJob(
        argv=("x",),
        env={},
        cwd="/",
        call_id="c1",
        tool="file.hash",
        input={"path": "README.md"},
        project_dir="/srv/shop",
        delegates={"keyboard": {"argv": ["/usr/bin/xdotool"]}},
        extra={"target": {"tab": "1"}},
    )
    request = json.loads(request_line(job, persistent=persistent))
    assert violations("request", request) == []
    assert violations("request", {**request, "protocol": "process-json/2"})
