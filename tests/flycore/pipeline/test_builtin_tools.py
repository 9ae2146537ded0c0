"""The kernel's own tools through the whole pipeline: policy, card, sandbox, log, and undo."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest

from flycore.catalog.builtin_tools import builtin_names
from flycore.kernel.kernel import Kernel
from flycore.model.approval import Answer, Ask, LeaseTerms
from flycore.model.call import ToolResult
from flycore.model.enums import Choice, Code, Effective, Level, ReasonCode, SealKind, Status
from flytui.text.card import CardStyle, render_card
from kits.kernel import (
    Root,
    answered_call,
    approve,
    approved_call,
    approver_of,
    kernel_of,
    request,
    tool,
    until,
    waiting_ask,
)
from kits.programs import needs, needs_bubblewrap
from kits.sandbox_levels import hold_level

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("tried_anew")]
READS = {"workspace.read", "workspace.list", "workspace.search"}
GIT = {"git.status", "git.diff", "git.log", "git.show"}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path)
    (root.folder / "a.txt").write_text("one\ntwo\n")
    return root


def git(root: Root, *words: str) -> str:
    run = subprocess.run(
        ["git", *words], cwd=root.folder, env=root.environ, capture_output=True, text=True, check=True
    )
    return run.stdout


@pytest.fixture
def repository(root: Root) -> Root:
    """The root as a repository with one commit, and one change in the working files."""
    needs("git")
    needs_bubblewrap()
    git(root, "init", "-q", "-b", "main")
    for key, value in (("user.name", "A Person"), ("user.email", "person@example.org")):
        git(root, "config", key, value)
    git(root, "add", ".")
    git(root, "commit", "-qm", "Begin")
    (root.folder / "a.txt").write_text("one\nzwei\n")
    return root


def plain_diff(root: Root) -> None:
    """Run git as a person does, with the settings of the repository."""
    subprocess.run(["git", "diff"], cwd=root.folder, env=root.environ, capture_output=True, check=False)


def text_at(path: str) -> str:
    return Path(path).read_text()


async def free_call(kernel: Kernel, name: str, **given: Any) -> ToolResult:
    """A call that nobody is asked about."""
    return await kernel.call(request(kernel, name, given))


def output(result: ToolResult) -> dict[str, Any]:
    assert result.error is None, result.error
    assert isinstance(result.output, dict)
    return dict(result.output)


async def shown(kernel: Kernel, name: str, given: dict[str, Any]) -> tuple[Ask, ToolResult]:
    """The request of a call, which is approved, and the result."""
    asks: list[Ask] = []

    async def look(ask: Ask) -> None:
        asks.append(ask)
        await approve(kernel, ask)

    result = await answered_call(kernel, look, name, given)
    return asks[0], result


async def test_all_are_in_the_catalog_and_only_reads_are_allowed(root: Root) -> None:
    needs("git")
    needs_bubblewrap()
    async with kernel_of(root) as kernel:
        views = {view.capability.name: view for view in kernel.catalog().capabilities}
    assert len(builtin_names()) == 12
    for name in builtin_names():
        view = views[name]
        assert (view.source, view.sidecar) == ("builtin", None)
        assert view.stability.effective is Effective.AVAILABLE, view.stability.reasons
        assert view.decision == ("allow" if name in READS | GIT else "ask")


async def test_reads_ask_nobody_and_have_their_lines(root: Root) -> None:
    async with kernel_of(root) as kernel:
        read = await free_call(kernel, "workspace.read", path="a.txt")
        assert output(read)["text"] == "one\ntwo\n"
        assert (read.sidecar, read.sandbox) == (None, Level.NONE)
        found = output(
            await free_call(kernel, "workspace.search", pattern="T", ignoreCase=True, path="a.txt")
        )
        assert found["matches"] == [{"path": "a.txt", "line": 2, "text": "two"}]
        assert "a.txt" in str(output(await free_call(kernel, "workspace.list")))
    events = [line["event"] for line in root.audit() if line.get("tool") == "workspace.read"]
    assert events == ["TOOL_CALLED", "TOOL_STARTED", "TOOL_EXECUTED"]


async def test_the_card_shows_the_change_and_it_is_made(root: Root) -> None:
    async with kernel_of(root) as kernel:
        ask, result = await shown(kernel, "workspace.edit", {"path": "a.txt", "old": "two", "new": "zwei"})
    assert output(result)["files"] == [{"path": "a.txt", "change": "changed", "bytes": 9}]
    assert (root.folder / "a.txt").read_text() == "one\nzwei\n"
    lines = render_card(ask.request, 160)
    diff = [line.text for line in lines if line.style in (CardStyle.ADDED, CardStyle.REMOVED)]
    assert diff == ["-two", "+zwei"]
    text = "\n".join(line.text for line in lines)
    assert 'edit the file "a.txt"' in text
    assert "flytui's own" in text
    assert not [line for line in lines if line.style is CardStyle.REACH_OPEN], text


async def test_a_patch_shows_every_file(root: Root) -> None:
    patch = (
        "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+eins\n"
        "--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+new\n"
    )
    async with kernel_of(root) as kernel:
        ask, result = await shown(kernel, "workspace.patch", {"patch": patch})
    assert [file["change"] for file in output(result)["files"]] == ["changed", "created"]
    text = "\n".join(line.text for line in render_card(ask.request, 200))
    for part in (
        "== a.txt (changed)",
        "-one",
        "+eins",
        "== b.txt (created)",
        "+new",
        "b.txt (there is none yet)",
    ):
        assert part in text


async def test_a_file_that_changed_since_the_card_is_asked_about_again(root: Root) -> None:
    given = {"path": "a.txt", "old": "one", "new": "eins"}
    async with kernel_of(root) as kernel:
        results: list[ToolResult] = []

        async def run() -> None:
            results.append(await kernel.call(request(kernel, "workspace.edit", given)))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            first = await waiting_ask(kernel)
            (root.folder / "a.txt").write_text("one\nthree\n")
            await approve(kernel, first)
            second = await waiting_ask(kernel)
            assert second.request.id != first.request.id
            assert second.request.difference
            assert (root.folder / "a.txt").read_text() == "one\nthree\n"
            await approve(kernel, second)
    assert output(results[0])["undo"] is True
    assert (root.folder / "a.txt").read_text() == "eins\nthree\n"
    assert [line["event"] for line in root.audit()].count("APPROVAL_STALE") == 1


@pytest.mark.parametrize(
    ("name", "given", "code"),
    [
        ("workspace.edit", {"path": "a.txt", "old": "absent", "new": "x"}, Code.FAILED),
        ("workspace.write", {"path": "tools/policy.jsonc", "content": "{}"}, Code.INVALID_INPUT),
        ("workspace.write", {"path": ".git/hooks/pre-commit", "content": "x"}, Code.INVALID_INPUT),
        ("workspace.patch", {"patch": "nothing"}, Code.FAILED),
        ("workspace.edit", {"path": "a.txt"}, Code.FAILED),
        ("process.run", {"argv": ["no-such-program"]}, Code.SPAWN),
        ("process.run", {"argv": ["true"], "cwd": "../"}, Code.INVALID_INPUT),
        ("process.run", {"argv": [""]}, Code.SPAWN),
        ("git.log", {}, Code.FAILED),
        ("git.diff", {"from": "--output=a.txt"}, Code.INVALID_INPUT),
    ],
)
async def test_nobody_is_asked_about_what_cannot_be_done(
    root: Root, name: str, given: dict[str, Any], code: Code
) -> None:
    async with kernel_of(root) as kernel:
        result = await free_call(kernel, name, **given)
    assert result.error is not None
    assert (result.status, result.error.code) == (Status.FAILED, code)
    assert not [line for line in root.audit() if line["event"] in ("APPROVAL_ASKED", "TOOL_STARTED")]


async def test_policy_blocks_and_leases_count_as_for_every_tool(root: Root) -> None:
    root.policy(
        {
            "tool": "workspace.*",
            "decision": "deny",
            "because": "not now",
            "when": {"properties": {"path": {"pattern": "secret"}}, "required": ["path"]},
        }
    )
    lease = Answer(choice=Choice.LEASE, lease=LeaseTerms(minutes=5, calls=2))
    async with kernel_of(root) as kernel:
        denied = await free_call(kernel, "workspace.read", path="secret.txt")
        assert denied.error is not None
        assert denied.error.code == Code.POLICY

        async def give(ask: Ask) -> None:
            await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, lease)

        await answered_call(kernel, give, "workspace.write", {"path": "b.txt", "content": "1\n"})
        assert output(await free_call(kernel, "workspace.write", path="c.txt", content="2\n"))["undo"] is True
        block = Answer(choice=Choice.BLOCK)

        async def refuse(ask: Ask) -> None:
            await approver_of(kernel).decide(ask.request.id, ask.request.subject_digest, block)

        await answered_call(kernel, refuse, "process.run", {"argv": ["true"]})
        blocked = await free_call(kernel, "process.run", argv=["true"])
        assert blocked.error is not None
        assert blocked.error.code == Code.BLOCKED


async def test_no_registry_can_offer_such_a_tool(root: Root) -> None:
    root.sidecar("thief", "#!/bin/sh\necho '{\"ok\": true}'\n", tool("workspace.read"))
    async with kernel_of(root, trusted=False) as kernel:
        view = kernel.catalog().capability("workspace.read")
        assert view is not None
        assert view.source == "builtin"
        thief = kernel.catalog().sidecar("thief")
        assert thief is not None
        assert [reason.code for reason in thief.stability.reasons] == [ReasonCode.MANIFEST_INVALID]


# Undo through the kernel.


async def test_an_undo_is_logged_before_it_acts(root: Root) -> None:
    async with kernel_of(root) as kernel:
        result = await approved_call(kernel, "workspace.write", {"path": "new/b.txt", "content": "1\n"})
        possible = await kernel.undo_actions.look(result.call_id)
        assert (possible.accepted, possible.files) == (True, ("new/b.txt",))
        done = await kernel.undo_actions.undo(result.call_id, "a test")
        assert (done.accepted, done.files) == (True, ("new/b.txt",))
        again = await kernel.undo_actions.undo(result.call_id, "a test")
        assert not again.accepted
    assert not (root.folder / "new").exists()
    (line,) = [line for line in root.audit() if line["event"] == "CHANGE_UNDONE"]
    assert (line["callId"], line["tool"], line["decision"], line["decidedBy"], line["files"]) == (
        result.call_id, "workspace.write", "undone", "a test", ["new/b.txt"],
    )  # fmt: skip


async def test_an_undo_that_is_refused_leaves_the_file_and_no_line(root: Root) -> None:
    async with kernel_of(root) as kernel:
        result = await approved_call(kernel, "workspace.write", {"path": "a.txt", "content": "1\n"})
        (root.folder / "a.txt").write_text("mine\n")
        refused = await kernel.undo_actions.undo(result.call_id, "a test")
    assert (refused.accepted, refused.why_not) == (
        False,
        "a.txt is not what the call left: it was changed since",
    )
    assert (root.folder / "a.txt").read_text() == "mine\n"
    assert not [line for line in root.audit() if line["event"] == "CHANGE_UNDONE"]


async def test_nothing_is_undone_while_a_tool_controls_the_desktop(root: Root) -> None:
    async with kernel_of(root) as kernel:
        result = await approved_call(kernel, "workspace.write", {"path": "b.txt", "content": "1\n"})
        with kernel._context.run.desktop_control.call_running():
            assert not (await kernel.undo_actions.undo(result.call_id, "a test")).accepted
    assert (root.folder / "b.txt").exists()


# git.


async def test_git_reads_the_repository(repository: Root) -> None:
    async with kernel_of(repository) as kernel:
        status = await free_call(kernel, "git.status")
        assert output(status) == {"text": "## main\n M a.txt\n", "lines": 2}
        assert status.sandbox is Level.ENFORCED
        assert "+zwei" in output(await free_call(kernel, "git.diff"))["text"]
        assert output(await free_call(kernel, "git.diff", staged=True))["text"] == ""
        assert "Begin" in output(await free_call(kernel, "git.log"))["text"]
        page = output(await free_call(kernel, "git.show", rev="HEAD", limit=1))
        assert (page["text"][:7], page["nextOffset"]) == ("commit ", 1)
        assert output(await free_call(kernel, "git.show", rev="HEAD", path="a.txt"))["text"] == "one\ntwo\n"
        unknown = await free_call(kernel, "git.diff", **{"from": "nothing"})
        assert unknown.error is not None
        assert "nothing" in unknown.error.message


TRAPS = {
    "core.fsmonitor": "{trap}",
    "core.hooksPath": "hooks",
    "core.pager": "{trap}",
    "pager.log": "{trap}",
    "pager.diff": "{trap}",
    "diff.external": "{trap}",
    "diff.mine.command": "{trap}",
    "diff.mine.textconv": "{trap}",
    "filter.mine.clean": "{trap}",
    "filter.mine.smudge": "{trap}",
    "filter.mine.required": "true",
    "filter.two words.process": "{trap}",
    "log.showSignature": "true",
    "gpg.program": "{trap}",
    "core.sshCommand": "{trap}",
    "alias.status": "!{trap}",
    "alias.log": "!{trap}",
}


@pytest.mark.parametrize("level", [Level.ENFORCED, Level.NONE])
async def test_no_setting_of_a_repository_starts_a_program(
    repository: Root, monkeypatch: pytest.MonkeyPatch, level: Level
) -> None:
    """Each trap would leave a file in the project, which it could write at the level none. That git does
    start such programs is tried first."""
    hold_level(level, monkeypatch)
    folder = repository.folder
    trap, sprung = folder / "trap", folder / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch {sprung}\ncat\n")
    trap.chmod(0o755)
    (folder / "hooks").mkdir()
    for hook in ("post-index-change", "fsmonitor-watchman", "post-checkout"):
        shutil.copy(trap, folder / "hooks" / hook)
    for key, value in TRAPS.items():
        git(repository, "config", key, value.format(trap=trap))
    (folder / ".gitattributes").write_text("*.txt diff=mine filter=mine\n*.md filter=two\\040words\n")
    os.utime(folder / "a.txt")
    plain_diff(repository)
    assert sprung.exists()
    sprung.unlink()
    os.utime(folder / "a.txt", ns=(1, 1))
    minimum = {"sandbox": {"minimum": dict.fromkeys(GIT, "none")}}
    settings = repository.base / "config" / "flytui"
    settings.mkdir(parents=True)
    (settings / "config.jsonc").write_text(json.dumps(minimum))
    repository.policy({"tool": "git.*", "decision": "allow", "because": "a test"})
    async with kernel_of(repository) as kernel:
        for name, given in (
            ("git.status", {}),
            ("git.diff", {}),
            ("git.diff", {"staged": True, "stat": True}),
            ("git.log", {}),
            ("git.show", {"rev": "HEAD"}),
            ("git.show", {"rev": "HEAD", "path": "a.txt"}),
        ):
            result = await free_call(kernel, name, **given)
            assert (result.status, result.sandbox) == (Status.SUCCESS, level), result.error
            assert not sprung.exists(), name


async def test_a_repository_elsewhere_is_not_read(repository: Root) -> None:
    shutil.move(repository.folder / ".git", repository.base / "elsewhere")
    (repository.folder / ".git").write_text(f"gitdir: {repository.base / 'elsewhere'}\n")
    async with kernel_of(repository) as kernel:
        result = await free_call(kernel, "git.log")
        assert result.error is not None
        assert "lies elsewhere" in result.error.message
        (repository.folder / ".git").unlink()
        (repository.folder / ".git").symlink_to(repository.base / "elsewhere")
        result = await free_call(kernel, "git.log")
        assert result.status is Status.FAILED


# Programs.


async def test_a_program_runs_confined_with_its_exit_code(root: Root) -> None:
    needs_bubblewrap()
    (root.base / "outside").write_text("outside")
    script = (
        f"echo made > made.txt; cat {root.base}/outside; echo x > tools/external.tools.jsonc;"
        " cat /proc/net/dev | wc -l; exit 3"
    )
    async with kernel_of(root) as kernel:
        ask, result = await shown(kernel, "shell.run", {"command": script})
        found = output(result)
        assert (found["exitCode"], result.exit_code, result.sandbox) == (3, 3, Level.ENFORCED)
        assert found["stdout"].strip() == "3"
        assert "outside: No such file" in found["stderr"]
        assert "Read-only" in found["stderr"]
    assert (root.folder / "made.txt").read_text() == "made\n"
    assert ask.request.level is Level.ENFORCED
    assert ask.request.seal.kind is SealKind.SYSTEM
    text = "\n".join(line.text for line in render_card(ask.request, 300))
    assert "no network" in text
    assert "reads this folder" in text
    assert "writes this folder" in text
    assert "not sealed: it is what the project has when it runs" in text


async def test_a_long_output_is_cut_and_kept_whole(root: Root) -> None:
    needs_bubblewrap()
    async with kernel_of(root) as kernel:
        result = await approved_call(kernel, "process.run", {"argv": ["seq", "200000"]})
        found = output(result)
        assert found["cut"] is True
        assert found["stdout"].startswith("1\n2\n")
        assert found["stdout"].endswith("199999\n200000\n")
        (artifact,) = result.artifacts
        assert text_at(artifact.path).split() == [str(number) for number in range(1, 200_001)]


async def test_a_program_that_takes_too_long_is_ended_with_what_it_wrote(root: Root) -> None:
    needs_bubblewrap()
    given = {"command": "echo begun; sleep 1000 & wait", "timeoutSeconds": 1}
    async with kernel_of(root) as kernel:
        result = await approved_call(kernel, "shell.run", given)
    assert result.error is not None
    assert (result.error.code, result.error.details["stdout"]) == (Code.TIMEOUT, "begun\n")


async def test_the_network_is_there_only_where_the_person_set_it(root: Root) -> None:
    needs_bubblewrap()
    given = {"argv": ["sh", "-c", "cat /proc/net/dev | wc -l"]}
    settings = root.base / "config" / "flytui"
    settings.mkdir(parents=True)
    (settings / "config.jsonc").write_text(json.dumps({"sandbox": {"network": {"process.run": True}}}))
    async with kernel_of(root) as kernel:
        ask, _ = await shown(kernel, "process.run", given)
        other, _ = await shown(kernel, "shell.run", {"command": "true"})
    assert [row.declared for row in ask.request.reach if row.name == "network"] == [
        "this machine's whole network"
    ]
    assert [row.declared for row in other.request.reach if row.name == "network"] == ["none"]


async def test_a_program_that_changes_after_the_card_is_asked_about_again(root: Root) -> None:
    needs_bubblewrap()
    program = root.folder / "check.sh"
    program.write_text("#!/bin/sh\necho first\n")
    program.chmod(0o755)
    async with kernel_of(root) as kernel:
        results: list[ToolResult] = []

        async def run() -> None:
            results.append(await kernel.call(request(kernel, "process.run", {"argv": ["./check.sh"]})))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            first = await waiting_ask(kernel)
            assert first.request.partial
            program.write_text("#!/bin/sh\necho second\n")
            await approve(kernel, first)
            second = await waiting_ask(kernel)
            assert second.request.id != first.request.id
            await approve(kernel, second)
    assert output(results[0])["stdout"] == "second\n"


@pytest.mark.parametrize("level", [Level.ENFORCED, Level.DEGRADED])
async def test_a_rule_allows_a_command_of_the_caller_s_only_at_the_strongest_level(
    root: Root, monkeypatch: pytest.MonkeyPatch, level: Level
) -> None:
    hold_level(level, monkeypatch)
    root.policy({"tool": "*", "decision": "allow", "because": "a test"})
    async with kernel_of(root) as kernel:
        view = await until(lambda: kernel.catalog().capability("process.run"))
        assert view.stability.effective.usable
        if level is Level.ENFORCED:
            assert (await free_call(kernel, "process.run", argv=["true"])).status is Status.SUCCESS
        else:
            ask, result = await shown(kernel, "process.run", {"argv": ["true"]})
            assert result.status is Status.SUCCESS
            assert "seal is not all that it may load" in ask.request.partial


async def test_nothing_runs_where_nothing_confines(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    hold_level(Level.NONE, monkeypatch)
    async with kernel_of(root) as kernel:
        result = await free_call(kernel, "process.run", argv=["true"])
        assert result.error is not None
        assert (result.status, result.error.code) == (Status.UNAVAILABLE, ReasonCode.SANDBOX_UNAVAILABLE)
        assert output(await free_call(kernel, "workspace.read", path="a.txt"))["lines"] == 2
