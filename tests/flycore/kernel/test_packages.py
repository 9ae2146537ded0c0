"""Packages of a running kernel: a person is asked, running calls end first, and a version that does not
answer its probe is hidden and goes back by one answer."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import anyio
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.diagnostics import CheckState
from flycore.model.enums import (
    Effective,
    PackageAction,
    PackageScope,
    QuestionKind,
    ReasonCode,
    Status,
    UpgradeState,
)
from flycore.model.package import PackageView
from flycore.model.question import Question
from flycore.packages import actions
from flycore.packages.area import open_area, project_area, user_area
from flycore.packages.records import read_record, write_record
from kits.kernel import Root, approver_of, kernel_of, request, tool, until
from kits.mcp_clients import NEW, client_of
from kits.packages import SHELL_MAIN, Example, broken_example, shell_example

pytestmark = pytest.mark.anyio
PROJECT = PackageScope.PROJECT
SLOW = """#!/bin/sh
read -r request
case "$request" in
  *'"probe"'*) printf '{{"ok": true}}\\n'; exit ;;
esac
touch {base}/running
while [ ! -e {base}/go ]; do sleep 0.05; done
printf '{{"ok": true, "text": "slow"}}\\n'
"""


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    root.policy({"tool": "greet-shell.*", "decision": "allow", "because": "test"})
    return root


def stage(root: Root, example: Example) -> None:
    """Stage a version as a command does, while the kernel runs or not."""
    end = actions.stage(project_area(root.places), example.folder(root.base), time.time())
    assert end.outcome.changed, end.outcome


def questions(kernel: Kernel) -> list[Question]:
    return [question for question in kernel.questions() if question.kind is QuestionKind.PACKAGE]


async def asked(kernel: Kernel) -> Question:
    found: list[Question] = await until(lambda: questions(kernel))
    assert len(found) == 1
    return found[0]


def view_of(kernel: Kernel) -> PackageView | None:
    return next(iter(kernel.packages()), None)


async def greeting(kernel: Kernel) -> object:
    result = await kernel.call(request(kernel, "greet-shell.greet"))
    assert result.status is Status.SUCCESS, result.error
    assert isinstance(result.output, dict)
    return result.output["text"]


async def test_a_person_installs_upgrades_and_rolls_back(root: Root) -> None:
    async with kernel_of(root) as kernel:
        approver = approver_of(kernel)
        stage(root, shell_example("1.0.0", "one"))
        first = await asked(kernel)
        assert first.options[1].recommended
        assert any("greet-shell.greet: new" in line for line in first.lines)
        assert (await approver.answer(first.id, "apply")).accepted
        assert await greeting(kernel) == "one"
        stage(root, shell_example("1.1.0", "two"))
        question = await asked(kernel)

        def staged() -> bool:
            state = kernel.catalog().sidecar("greet-shell")
            return state is not None and state.stability.upgrade is UpgradeState.STAGED

        await until(staged)
        assert await greeting(kernel) == "one"
        assert (await approver.answer(question.id, "apply")).accepted
        assert await greeting(kernel) == "two"
        assert not questions(kernel)
        done = await approver.change_package(PackageAction.ROLLBACK, "greet-shell", PROJECT, "")
        assert done.accepted
        assert await greeting(kernel) == "one"
        done = await approver.change_package(PackageAction.REMOVE, "greet-shell", PROJECT, "")
        assert done.accepted
        assert kernel.packages() == ()
        assert kernel.catalog().capability("greet-shell.greet") is None
    events = [
        line["event"] for line in root.audit() if "PACKAGE" in line["event"] or "QUESTION" in line["event"]
    ]
    assert events.count("PACKAGE_CHANGED") == 8
    assert events.count("QUESTION_ANSWERED") == 2
    assert events.count("PACKAGE_PROBED") == 3


async def test_a_version_that_does_not_answer_is_hidden_and_goes_back_by_one_answer(root: Root) -> None:
    async with kernel_of(root) as kernel:
        approver = approver_of(kernel)
        stage(root, shell_example("1.0.0", "one"))
        assert (await approver.answer((await asked(kernel)).id, "apply")).accepted
        stage(root, broken_example("2.0.0"))
        answered = await approver.answer((await asked(kernel)).id, "apply")
        assert answered.accepted
        assert "does not answer its probe" in answered.why_not
        found = kernel.catalog().capability("greet-shell.greet")
        assert found is not None
        assert found.stability.effective is Effective.UNAVAILABLE
        assert found.stability.upgrade is UpgradeState.ROLLBACK_REQUIRED
        assert found.stability.reasons[0].code is ReasonCode.ROLLBACK_REQUIRED
        refused = await kernel.call(request(kernel, "greet-shell.greet"))
        assert refused.error is not None
        assert refused.error.code == ReasonCode.ROLLBACK_REQUIRED
        question = await asked(kernel)
        assert [option.id for option in question.options] == ["rollback", "reinstall", "keep"]
        assert question.options[0].recommended
        # Asking the version again changes nothing while it is broken.
        await approver.answer(question.id, "reinstall")
        assert [other.id for other in questions(kernel)] == [question.id]
        assert (await approver.answer(question.id, "rollback")).accepted
        assert await greeting(kernel) == "one"
        assert not questions(kernel)


async def test_what_has_to_be_rolled_back_is_hidden_from_agents_and_shown_everywhere_else(root: Root) -> None:
    async with kernel_of(root) as kernel, client_of(root, kernel, NEW) as agent:
        stage(root, shell_example("1.0.0", "one"))
        assert (await approver_of(kernel).answer((await asked(kernel)).id, "apply")).accepted
        assert "greet-shell_greet" in [tool.name for tool in (await agent.list_tools()).tools]
        stage(root, broken_example("2.0.0"))
        assert (await approver_of(kernel).answer((await asked(kernel)).id, "apply")).accepted
        question = await asked(kernel)
        assert "greet-shell_greet" not in [tool.name for tool in (await agent.list_tools()).tools]
        [view] = kernel.packages()
        # The code of the probe, and not what the program wrote.
        assert view.why == "it does not answer its probe (probe-unavailable)"
        assert f"why      {view.why}" in question.lines
        checks = [check for check in await kernel.checks() if check.sidecar == "greet-shell"]
        unwell = [check for check in checks if check.state is not CheckState.OK]
        assert any("flytui packages rollback greet-shell" in check.fix for check in unwell), checks
        assert (await approver_of(kernel).answer(question.id, "rollback")).accepted
        assert "greet-shell_greet" in [tool.name for tool in (await agent.list_tools()).tools]


async def broken_by_hand(root: Root, kernel: Kernel) -> tuple[Question, Path]:
    """Upgrade to a version whose program somebody breaks before its probe: what differs is the files alone.
    Return the question, and the program that was installed."""
    area = project_area(root.places)
    stage(root, shell_example("1.0.0", "one"))
    assert (await approver_of(kernel).answer((await asked(kernel)).id, "apply")).accepted
    stage(root, shell_example("2.0.0", "two"))
    assert (await approver_of(kernel).answer((await asked(kernel)).id, "apply")).accepted
    installed = area.base / area.folder / "greet-shell" / "run.sh"
    installed.write_text("#!/bin/sh\nexit 3\n")
    assert actions.record_probe(area, "greet-shell", "it does not answer its probe").outcome.changed
    return await asked(kernel), installed


async def test_a_reinstall_brings_back_the_files_and_keeps_the_way_back(root: Root) -> None:
    async with kernel_of(root) as kernel:
        approver = approver_of(kernel)
        question, installed = await broken_by_hand(root, kernel)
        [before] = await kernel.verify_packages()
        assert before.problems
        assert str(root.base / "greet-shell-2.0.0") in question.options[1].words
        assert (await approver.answer(question.id, "reinstall")).accepted
        assert "two" in installed.read_text()
        assert await greeting(kernel) == "two"
        assert not questions(kernel)
        view = view_of(kernel)
        assert view is not None
        assert (view.state, view.version, view.previous) == (UpgradeState.IDLE, "2.0.0", "1.0.0")
        [after] = await kernel.verify_packages()
        assert not after.problems
        assert (await approver.change_package(PackageAction.ROLLBACK, "greet-shell", PROJECT, "")).accepted
        assert await greeting(kernel) == "one"


async def test_a_reinstall_of_other_files_waits_for_a_review(root: Root) -> None:
    async with kernel_of(root) as kernel:
        approver = approver_of(kernel)
        question, installed = await broken_by_hand(root, kernel)
        shell_example("2.0.0", "something else").folder(root.base)
        assert (await approver.answer(question.id, "reinstall")).accepted
        assert "exit 3" in installed.read_text()
        kinds = [found.id.split(":")[3] for found in questions(kernel)]
        assert kinds == ["broken", "staged"]
        shutil.rmtree(root.base / "greet-shell-2.0.0")
        assert (await approver.discard_package("greet-shell", PROJECT)).accepted
        refused = await approver.answer(question.id, "reinstall")
        assert not refused.accepted
        assert [found.id for found in questions(kernel)] == [question.id]


async def test_a_broken_first_version_can_be_removed(root: Root) -> None:
    async with kernel_of(root) as kernel:
        stage(root, broken_example("1.0.0"))
        await approver_of(kernel).answer((await asked(kernel)).id, "apply")
        question = await asked(kernel)
        assert [option.id for option in question.options] == ["remove", "reinstall", "keep"]
        assert (await approver_of(kernel).answer(question.id, "keep")).accepted
        assert not questions(kernel)
        view = view_of(kernel)
        assert view is not None
        assert view.state is UpgradeState.FAILED


async def test_running_calls_end_before_anything_moves(root: Root, tmp_path: Path) -> None:
    slow = SLOW.format(base=tmp_path)
    example = shell_example("1.0.0", permissions={"fs": {"write": [str(tmp_path)]}})
    example.files = {"run.sh": (slow, True)}
    async with kernel_of(root) as kernel, anyio.create_task_group() as group:
        stage(root, example)
        await approver_of(kernel).answer((await asked(kernel)).id, "apply")
        found: list[object] = []

        async def call() -> None:
            found.append(await greeting(kernel))

        group.start_soon(call)
        await until(lambda: (tmp_path / "running").exists())
        upgrade = shell_example("1.1.0", "new", permissions={"fs": {"write": [str(tmp_path)]}})
        stage(root, upgrade)
        question = await asked(kernel)
        group.start_soon(approver_of(kernel).answer, question.id, "apply")

        def announced() -> bool:
            found = kernel.catalog().sidecar("greet-shell")
            return found is not None and found.stability.upgrade is UpgradeState.APPLYING

        await until(announced)
        # No further call begins, and the old version is still in its place for the one that runs.
        refused = await kernel.call(request(kernel, "greet-shell.greet"))
        assert refused.error is not None
        assert refused.error.code == ReasonCode.UPGRADE_APPLYING
        installed = project_area(root.places).base / "tools/packages/greet-shell/run.sh"
        assert installed.read_text() == slow
        (tmp_path / "go").touch()
        await until(lambda: found)
        assert found == ["slow"]
        await until(lambda: (view := view_of(kernel)) is not None and view.version == "1.1.0" and view.probed)
        assert await greeting(kernel) == "new"


async def test_an_answer_counts_only_for_what_was_shown(root: Root) -> None:
    async with kernel_of(root) as kernel:
        stage(root, shell_example("1.0.0", "one"))
        question = await asked(kernel)
        stage(root, shell_example("1.0.0", "two"))
        # Whether the kernel has seen the new record or not, the old answer installs nothing.
        assert not (await approver_of(kernel).answer(question.id, "apply")).accepted
        assert not (root.folder / "tools/packages/greet-shell").exists()


async def test_what_is_put_off_is_asked_again_for_a_command(root: Root) -> None:
    async with kernel_of(root) as kernel:
        stage(root, shell_example("1.0.0"))
        question = await asked(kernel)
        assert (await approver_of(kernel).answer(question.id, "leave")).accepted
        assert not questions(kernel)
        assert (await kernel.ask_package(PackageAction.APPLY, "greet-shell", PROJECT)).accepted
        assert [found.id for found in questions(kernel)] == [question.id]
        assert not (await kernel.ask_package(PackageAction.ROLLBACK, "nothing", PROJECT)).accepted


async def test_a_version_that_nobody_trusts_is_probed_once_it_is_trusted(root: Root) -> None:
    area = project_area(root.places)
    stage(root, broken_example("1.0.0"))
    view = actions.find(area, "greet-shell")
    assert view is not None
    assert view.review is not None
    assert actions.apply(area, "greet-shell", view.review.digest).outcome.changed
    async with kernel_of(root, trusted=False) as kernel:
        found = view_of(kernel)
        assert found is not None
        assert (found.state, found.probed) == (UpgradeState.IDLE, False)
        pending = kernel.pending_trust()
        await approver_of(kernel).trust(tuple((item.sidecar, item.digest) for item in pending))
        question = await asked(kernel)
        assert question.title == "greet-shell has to be rolled back"


async def test_a_change_that_was_cut_off_is_undone_at_the_start(root: Root) -> None:
    area = project_area(root.places)
    stage(root, shell_example("1.0.0"))
    view = actions.find(area, "greet-shell")
    assert view is not None
    assert view.review is not None
    actions.announce(area, "greet-shell", PackageAction.APPLY, view.review.digest)
    record = read_record(area, "greet-shell")
    assert record is not None
    assert record.state is UpgradeState.APPLYING
    with open_area(area):  # another process changes packages: nothing is recovered, nothing hangs
        async with kernel_of(root) as kernel:
            found = view_of(kernel)
            assert found is not None
            assert found.state is UpgradeState.APPLYING
    async with kernel_of(root) as kernel:
        found = view_of(kernel)
        assert found is not None
        assert found.state is UpgradeState.STAGED
    assert [line["decision"] for line in root.audit() if line["event"] == "PACKAGE_RECOVERED"] == [
        "recovered"
    ]


async def test_an_undecided_change_is_put_before_a_person(root: Root) -> None:
    area = project_area(root.places)
    root.sidecar("greet", SHELL_MAIN.format(words="x"), tool("other.greet"))
    stage(root, shell_example("1.0.0"))
    view = actions.find(area, "greet-shell")
    assert view is not None
    assert view.review is not None
    actions.announce(area, "greet-shell", PackageAction.APPLY, view.review.digest)
    record = read_record(area, "greet-shell")
    assert record is not None
    write_record(area, record)
    # Somebody moves both folders away: neither the old nor the new version is there.
    for name in (".staging/greet-shell@1.0.0", "greet-shell"):
        folder = area.base / area.folder / name
        if folder.exists():
            folder.rename(root.base / "away")
    async with kernel_of(root) as kernel:
        question = await asked(kernel)
        assert question.title == "greet-shell has to be rolled back"
        other = kernel.catalog().capability("other.greet")
        assert other is not None
        assert other.stability.effective is Effective.AVAILABLE


async def test_a_package_of_the_user_serves_every_project(root: Root, tmp_path: Path) -> None:
    area = user_area(root.places)
    async with kernel_of(root) as kernel:
        approver = approver_of(kernel)
        source = shell_example("1.0.0", "mine").folder(tmp_path)
        assert (await approver.stage_package(str(source), PackageScope.USER)).accepted
        [question] = questions(kernel)
        assert (await approver.answer(question.id, "apply")).accepted
        assert await greeting(kernel) == "mine"
        assert (area.base / "packages" / "greet-shell" / "run.sh").exists()
        assert "greet-shell" in (area.registry_anchor / area.registry).read_text()
        assert "greet-shell" not in (root.folder / "tools/external.tools.jsonc").read_text()
