"""Roots within this one: a person is asked once for each, and the answer is kept."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import msgspec
import pytest

from flycore.approval.nested_roots import (
    ALLOW,
    MAX_QUESTIONS,
    MAX_ROOTS,
    REFUSE,
    NestedRoots,
    is_nested_root,
)
from flycore.model.clock import SystemClock
from flycore.model.enums import QuestionKind, RootPermission
from flycore.model.question import Question
from flycore.registry.paths import REGISTRY_FILE
from kits.kernel import a_caller

pytestmark = pytest.mark.anyio
AGENT = a_caller()
STARTED = msgspec.structs.replace(AGENT, program="sidecar runner", executable="")
"""A program that the kernel started."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "nested_roots.json"


def open_store(path: Path) -> tuple[NestedRoots, list[Question]]:
    asked: list[Question] = []
    return NestedRoots(path, Path("/outer"), SystemClock(), asked.append), asked


def write_file(path: Path, content: str) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(content, errors="surrogateescape")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def decide(store: NestedRoots, question: Question, option: str) -> bool:
    return (await store.answer(question, option, "", "a test")).accepted


@pytest.mark.parametrize(
    ("option", "permission"), [(ALLOW, RootPermission.ALLOWED), (REFUSE, RootPermission.REFUSED)]
)
async def test_a_person_is_asked_once_and_the_answer_is_kept(
    path: Path, option: str, permission: RootPermission
) -> None:
    store, asked = open_store(path)
    for _ in range(3):
        assert store.permission("/outer/inner", AGENT) is RootPermission.UNDECIDED
    [question] = asked
    assert store.questions() == (question,)
    assert (question.kind, question.about) == (QuestionKind.NESTED, "/outer/inner")
    assert [item.id for item in question.options if item.recommended] == [REFUSE]
    assert await decide(store, question, option)
    assert store.questions() == ()
    assert mode_of(path) == 0o600
    again, asked_again = open_store(path)
    for kept in (store, again):
        assert kept.permission("/outer/inner", AGENT) is permission
        assert kept.permission("/outer/inner", STARTED) is permission
    assert (len(asked), len(asked_again)) == (1, 0)
    assert again.permission("/outer/other", AGENT) is RootPermission.UNDECIDED


async def test_a_program_that_the_kernel_started_asks_nobody(path: Path) -> None:
    store, asked = open_store(path)
    assert store.permission("/outer/inner", STARTED) is RootPermission.UNDECIDED
    assert (asked, store.questions()) == ([], ())


async def test_questions_and_answers_are_bounded(path: Path) -> None:
    store, asked = open_store(path)
    for number in range(MAX_QUESTIONS + 2):
        store.permission(f"/outer/{number}", AGENT)
    assert len(asked) == len(store.questions()) == MAX_QUESTIONS
    assert await decide(store, asked[0], REFUSE)
    store.permission("/outer/more", AGENT)
    assert len(store.questions()) == MAX_QUESTIONS
    kept = [{"root": f"/outer/old{n}", "permission": "refused", "at": 1.0} for n in range(MAX_ROOTS)]
    write_file(path, json.dumps({"roots": kept}))
    full, asked = open_store(path)
    full.permission("/outer/new", AGENT)
    assert await decide(full, asked[0], ALLOW)
    again, _ = open_store(path)
    found = [again.permission(f"/outer/{name}", STARTED) for name in ("new", "old1", "old0")]
    assert found == [RootPermission.ALLOWED, RootPermission.REFUSED, RootPermission.UNDECIDED]


@pytest.mark.parametrize("content", ["", "[]", '{"roots": [{"root": "/outer/inner"}]}', "\udcff"])
async def test_a_file_that_cannot_be_relied_on_is_asked_for_anew(path: Path, content: str) -> None:
    write_file(path, content)
    store, asked = open_store(path)
    assert store.permission("/outer/inner", AGENT) is RootPermission.UNDECIDED
    assert await decide(store, asked[0], REFUSE)
    assert open_store(path)[0].permission("/outer/inner", AGENT) is RootPermission.REFUSED


async def test_an_answer_that_cannot_be_written_has_no_effect(path: Path) -> None:
    store, asked = open_store(path)
    store.permission("/outer/inner", AGENT)
    path.parent.write_text("")  # a file in the place of the folder
    assert not await decide(store, asked[0], ALLOW)
    assert store.questions() == tuple(asked)
    assert store.permission("/outer/inner", AGENT) is RootPermission.UNDECIDED


def test_only_the_real_path_of_a_root_below_is_one(tmp_path: Path) -> None:
    outer = Path(os.path.realpath(tmp_path)) / "outer"
    inner = outer / "vendor" / "inner"
    for folder in (outer, inner, outer.parent / "beside"):
        (folder / REGISTRY_FILE).parent.mkdir(parents=True)
        (folder / REGISTRY_FILE).write_text("{}")
    (outer / "link").symlink_to(inner)
    assert is_nested_root(str(inner), outer)
    other = (outer, outer / "vendor", outer.parent / "beside", outer / "link", outer / "gone")
    texts = ("", ".", "vendor/inner", f"{inner}/", f"{outer}/../outer/vendor/inner", "/\0", "/\ud800")
    assert not any(is_nested_root(str(text), outer) for text in (*other, *texts))
    assert not is_nested_root(f"{outer}/{'x/' * 5_000}", outer)
