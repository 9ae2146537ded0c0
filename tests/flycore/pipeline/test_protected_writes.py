"""What runs by itself is never written by a confined call: real programs, real git, the sandbox of this
machine."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from flycore.kernel.kernel import Kernel
from flycore.model.call import ToolResult
from flycore.model.enums import Code, Level, Status
from kits.kernel import Root, kernel_of, permitted_call, request, tool, until, waiting_ask
from kits.programs import needs
from kits.sandbox_levels import hold_level

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("tried_anew")]

RUNS = """#!/usr/bin/python3 -I
import json, os, subprocess, sys
asked = json.loads(sys.stdin.readline())
os.chdir(asked["projectDir"])
done = subprocess.run(["/bin/sh", "-c", asked["input"]["do"]], capture_output=True, text=True)
print(json.dumps({"ok": True, "code": done.returncode, "out": done.stdout, "err": done.stderr}))
"""
SERVES = """#!/usr/bin/python3 -I
import json, os, subprocess, sys
for line in sys.stdin:
    asked = json.loads(line)
    os.chdir(asked["projectDir"])
    done = subprocess.run(["/bin/sh", "-c", asked["input"]["do"]], capture_output=True, text=True)
    print(json.dumps({"requestId": asked["requestId"], "ok": True, "code": done.returncode}), flush=True)
"""
ALLOW = {"tool": "*", "decision": "allow", "because": "test"}
PERSON = "-c user.name=Person -c user.email=person@example.com"


@pytest.fixture
def enforced(monkeypatch: pytest.MonkeyPatch) -> None:
    hold_level(Level.ENFORCED, monkeypatch)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    needs("git")
    root = Root(tmp_path)
    git(root.folder, "init", "-q", "-b", "main", ".")
    (root.folder / "a").write_text("x")
    git(root.folder, "add", "a")
    git(root.folder, *PERSON.split(), "commit", "-qm", "first")
    root.policy(ALLOW)
    return root


def git(folder: Path, *words: str) -> str:
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *words], cwd=folder, env=environ, check=True, capture_output=True, text=True
    )
    return done.stdout


def snapshot(folder: Path) -> dict[str, str]:
    """The files, links and folders below the folder, with what they hold."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        else:
            found[name] = path.read_bytes().decode("latin-1") if path.is_file() else "/"
    return found


def is_there(path: Path) -> bool:
    """Whether there is a file of that name, be it a link that leads nowhere."""
    return os.path.lexists(path)


def absolute(root: Root, name: str) -> str:
    return os.path.normpath(root.folder / name)


async def does(kernel: Kernel, line: str, name: str = "sh.do", **more: Any) -> ToolResult:
    """Run the line of a shell as a confined call, which a person approves if asked."""
    return await permitted_call(kernel, name, {"do": line, **more})


def code_of(result: ToolResult) -> str:
    return result.error.code if result.error is not None else ""


def exit_of(result: ToolResult) -> Any:
    assert isinstance(result.output, dict), result.error
    return result.output["code"]


GRANTS = (["."], [".git"], [".git", "."], ["${input.where}"], ["../project"], [".."])
BREAKS = {
    "write": "echo evil > .git/hooks/pre-commit",
    "config": "echo '[core] fsmonitor = ./evil' >> .git/config",
    "git config": "git config core.fsmonitor ./evil",
    "remove": "rm -rf .git/hooks .git/config",
    "rename": "mv .git x && cp -r x .git && echo evil > .git/hooks/pre-commit",
    "rename hooks": "mv .git/hooks .git/x && mkdir .git/hooks && echo evil > .git/hooks/pre-commit",
    "link": "ln -s .git/hooks h && echo evil > h/pre-commit",
    "hard link": "ln .git/config c && echo '[core] fsmonitor = ./evil' >> c",
    "replace": "echo evil > .git/n && mv -f .git/n .git/config",
    "exchange": "mkdir -p n && mv -T n .git/hooks",
    "mode": "chmod 777 .git/hooks .git/config && echo evil > .git/hooks/pre-commit",
}


@pytest.mark.usefixtures("enforced")
@pytest.mark.parametrize("grant", GRANTS, ids=str)
async def test_what_git_runs_by_itself_stays_as_it_is_whatever_is_granted(
    root: Root, grant: list[str]
) -> None:
    root.sidecar("sh", RUNS, tool("sh.do"), permissions={"fs": {"read": ["."], "write": grant}})
    kept = {name: snapshot(root.folder / ".git" / name) for name in ("hooks",)}
    config = (root.folder / ".git/config").read_text()
    async with kernel_of(root) as kernel:
        for name, line in BREAKS.items():
            result = await does(kernel, line, where=".")
            assert result.sandbox is Level.ENFORCED, name
            assert snapshot(root.folder / ".git/hooks") == kept["hooks"], name
            assert (root.folder / ".git/config").read_text() == config, name
            assert (root.folder / ".git").is_dir(), name


@pytest.mark.usefixtures("enforced")
@pytest.mark.parametrize("grant", [[".git/hooks"], [".git/hooks/x"], [".vscode"], ["tools/bin/x"]])
async def test_a_grant_of_a_protected_path_itself_writes_nothing_and_leaves_no_stub(
    root: Root, grant: list[str]
) -> None:
    root.sidecar("sh", RUNS, tool("sh.do"), permissions={"fs": {"read": ["."], "write": grant}})
    before = snapshot(root.folder)
    async with kernel_of(root) as kernel:
        result = await does(kernel, f"mkdir -p {grant[0]}; echo evil > {grant[0]}/pre-commit")
        assert exit_of(result) != 0
    assert snapshot(root.folder) == before


@pytest.mark.parametrize("target", [".git", ".git/hooks"])
async def test_a_link_that_is_granted_leads_to_nothing_that_may_be_written(
    root: Root, target: str, level: Level
) -> None:
    (root.folder / "out").symlink_to(target)
    root.sidecar("sh", RUNS, tool("sh.do"), permissions={"fs": {"write": ["out"]}})
    before = snapshot(root.folder / ".git/hooks")
    async with kernel_of(root) as kernel:
        result = await does(kernel, "echo evil > out/pre-commit; echo evil > out/hooks/pre-commit")
        assert result.sandbox is level
        if level is Level.DEGRADED and target == ".git":
            assert code_of(result) == Code.PROTECTED_PATH
    assert snapshot(root.folder / ".git/hooks") == before


@pytest.mark.usefixtures("enforced")
async def test_ordinary_work_with_git_goes_on(root: Root) -> None:
    root.sidecar("sh", RUNS, tool("sh.do"), permissions={"fs": {"write": ["."]}})
    async with kernel_of(root) as kernel:
        for line in (
            f"echo y > b && git add b && git {PERSON} commit -m second",
            "git checkout -b other && git checkout main && git branch -D other",
            f"git {PERSON} tag -a v1 -m one && git stash list && git gc -q && git status --short",
            f"echo z > a && git stash -q && git {PERSON} stash pop -q; git reset --hard -q",
            f"git {PERSON} commit --amend -m again && git log --oneline && git mv b c && git reset --hard",
        ):
            result = await does(kernel, line)
            assert (result.status, exit_of(result)) == (Status.SUCCESS, 0), (line, result)
    assert len(git(root.folder, "log", "--oneline").splitlines()) == 2


PLANTED = {
    ".mcp.json": "echo evil > .mcp.json",
    ".vscode": "mkdir .vscode && echo evil > .vscode/tasks.json",
    "deep/er/.envrc": "mkdir -p deep/er && echo evil > deep/er/.envrc",
    "tools/policy.jsonc": "echo evil > tools/policy.jsonc",
    "tools/bin": "mkdir tools/bin && echo evil > tools/bin/evil",
    "CLAUDE.md": "ln -s a CLAUDE.md",
    "claude.MD": "echo evil > claude.MD",
    ".VSCode": "mkdir -p .VSCode && echo evil > .VSCode/tasks.json",
    "x.code-workspace": "echo evil > x.code-workspace",
    "sub/.npmrc": "mkdir sub && echo evil > sub/.npmrc && chmod 555 sub",
    ".idea": "mkdir .idea && echo evil > .idea/x && chmod 000 .idea",
}


@pytest.mark.parametrize("level", [Level.ENFORCED, Level.DEGRADED])
async def test_a_protected_name_that_appears_is_moved_aside_and_the_call_fails(
    root: Root, level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold_level(level, monkeypatch)
    root.sidecar("sh", RUNS, tool("sh.do"), permissions={"fs": {"write": ["."]}})
    async with kernel_of(root) as kernel:
        for name, line in PLANTED.items():
            result = await does(kernel, line)
            assert (result.status, code_of(result)) == (Status.FAILED, Code.PROTECTED_PATH), (name, result)
            assert result.error is not None
            assert name in result.error.message
            assert not is_there(root.folder / name), name
            assert is_there(root.places.moved_aside_dir / result.call_id / name), name
        # What is no name of the list stays, and the next call is an ordinary one.
        assert exit_of(await does(kernel, "test -d deep/er && echo x > file")) == 0


@pytest.mark.usefixtures("enforced")
async def test_a_hook_that_git_was_without_is_moved_aside(root: Root) -> None:
    (root.folder / ".git/hooks").rename(root.base / "hooks")
    root.sidecar("sh", RUNS, tool("sh.do"), permissions={"fs": {"write": ["."]}})
    async with kernel_of(root) as kernel:
        for line in (
            "mkdir .git/hooks && echo evil > .git/hooks/post-commit",
            "ln -s ../evil .git/hooks",
            "echo /elsewhere > .git/commondir",
            "echo '[core] fsmonitor = ./evil' > .git/config.worktree",
        ):
            result = await does(kernel, line)
            assert code_of(result) == Code.PROTECTED_PATH, line
            found = {"hooks", "commondir", "config.worktree"} & set(os.listdir(root.folder / ".git"))
            assert not found, line


@pytest.mark.usefixtures("enforced")
async def test_new_repositories_stay_if_nothing_in_them_starts_a_program(root: Root) -> None:
    root.sidecar("sh", RUNS, tool("sh.do"), permissions={"fs": {"write": ["."]}})
    harmless = {
        "git init -q new": "new/.git/config",
        "git clone -q . copy": "copy/.git/config",
        "git init -q --bare bare": "bare/config",
        "git worktree add -q tree": "tree/.git",
    }
    harmful = {
        "git init -q one && git -C one config core.fsmonitor ./evil": "one/.git/config",
        "git init -q two && echo evil > two/.git/hooks/post-checkout": "two/.git/hooks",
        "git init -q --bare three && git -C three config core.hooksPath ..": "three/config",
        "mkdir four && echo 'gitdir: /tmp/evil' > four/.git": "four/.git",
        # git takes this folder for a repository, with another one's configuration.
        "mkdir -p five && cp .git/HEAD five && echo ../evil > five/commondir": "five/commondir",
        "git init -q six && git -C six remote add r ext::./evil": "six/.git/config",
    }
    async with kernel_of(root) as kernel:
        for line, path in harmless.items():
            result = await does(kernel, line)
            assert (result.status, exit_of(result)) == (Status.SUCCESS, 0), (line, result)
            assert (root.folder / path).exists(), line
        for line, path in harmful.items():
            result = await does(kernel, line)
            assert code_of(result) == Code.PROTECTED_PATH, (line, result)
            assert not (root.folder / path).exists(), line
        # What is there by now is protected in its turn.
        for path in harmless.values():
            assert exit_of(await does(kernel, f"echo evil >> {path}")) != 0, path


@pytest.mark.usefixtures("enforced")
async def test_nested_repositories_worktrees_and_submodules_are_held(root: Root) -> None:
    git(root.folder, "init", "-q", "nested")
    git(root.folder, "worktree", "add", "-q", "tree")
    git(root.folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "./.", "module")
    before = {
        path: (root.folder / path).read_text()
        for path in (
            *("nested/.git/config", "tree/.git", "module/.git", ".git/modules/module/config"),
            ".git/worktrees/tree/commondir",
        )
    }
    root.sidecar("sh", RUNS, tool("sh.do"), permissions={"fs": {"write": ["."]}})
    async with kernel_of(root) as kernel:
        for path, content in before.items():
            for line in (
                f"echo evil > {path}",
                f"rm -f {path}",
                f"mv {path} x; echo evil > {path}",
                f"mv {os.path.dirname(path)} moved && mkdir -p {os.path.dirname(path)} && echo evil > {path}",
            ):
                await does(kernel, line)
                assert (root.folder / path).read_text() == content, line
        lines = f"cd tree && echo w > w && git add w && git {PERSON} commit -qm w"
        assert exit_of(await does(kernel, lines)) == 0


@pytest.mark.usefixtures("enforced")
@pytest.mark.parametrize("write", [["."], ["scripts"], ["settings"]])
async def test_what_the_configuration_of_git_names_is_held(root: Root, write: list[str]) -> None:
    for folder in ("scripts", "settings"):
        (root.folder / folder).mkdir()
    git(root.folder, "config", "include.path", "../settings/more")
    (root.folder / "settings/more").write_text('[core]\n\thooksPath = "scripts"\n')
    (root.folder / "scripts/pre-commit").write_text("#!/bin/sh\n")
    root.sidecar("sh", RUNS, tool("sh.do"), permissions={"fs": {"read": ["."], "write": write}})
    before = snapshot(root.folder / "scripts"), snapshot(root.folder / "settings")
    async with kernel_of(root) as kernel:
        for line in (
            "echo evil > scripts/pre-commit",
            "echo evil > scripts/post-commit",
            "mv scripts s && mkdir scripts && echo evil > scripts/pre-commit",
            "echo evil > settings/more",
            "mv settings s && mkdir settings && echo evil > settings/more",
        ):
            await does(kernel, line)
            assert (snapshot(root.folder / "scripts"), snapshot(root.folder / "settings")) == before, line


@pytest.mark.usefixtures("enforced")
@pytest.mark.parametrize("write", [["."], ["src"], ["src/innocent", "src/other"]])
async def test_another_name_of_a_protected_file_is_held(root: Root, write: list[str]) -> None:
    (root.folder / "src").mkdir()
    hook = root.folder / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\n")
    os.link(hook, root.folder / "src/innocent")
    (root.folder / "src/other").write_text("")
    root.sidecar("sh", RUNS, tool("sh.do"), permissions={"fs": {"read": ["."], "write": write}})
    async with kernel_of(root) as kernel:
        assert exit_of(await does(kernel, "echo evil > src/innocent")) != 0
        assert exit_of(await does(kernel, "echo fine > src/other")) == 0
    assert hook.read_text() == "#!/bin/sh\n"


@pytest.mark.usefixtures("enforced")
async def test_a_protected_link_that_is_replaced_is_put_back(root: Root) -> None:
    (root.folder / "docs").mkdir()
    (root.folder / "docs/agents.txt").write_text("kept")
    (root.folder / "CLAUDE.md").symlink_to("docs/agents.txt")
    root.sidecar("sh", RUNS, tool("sh.do"), permissions={"fs": {"write": ["."]}})
    async with kernel_of(root) as kernel:
        assert exit_of(await does(kernel, "echo evil > docs/agents.txt")) != 0
        for line in ("rm CLAUDE.md && echo evil > CLAUDE.md", "ln -sf a CLAUDE.md", "rm CLAUDE.md"):
            result = await does(kernel, line)
            assert code_of(result) == Code.PROTECTED_PATH, line
            assert (root.folder / "CLAUDE.md").read_text() == "kept", line


@pytest.mark.usefixtures("enforced")
async def test_the_registry_the_policy_and_flytui_s_own_folders_are_held(root: Root) -> None:
    root.sidecar("sh", RUNS, tool("sh.do"), permissions={"fs": {"write": ["tools", "..", "."]}})
    root.policy({"tool": "x.y", "decision": "deny", "because": "never"}, project=True)
    async with kernel_of(root) as kernel:
        before = snapshot(root.folder / "tools")
        state = root.places.trust_file
        for line in (
            "rm tools/policy.jsonc",
            "echo > tools/policy.jsonc",
            "mv tools t && mkdir tools",
            "echo evil > tools/external.tools.jsonc",
            f"echo evil > {state}",
            f"echo evil > {root.places.policy_file}",
            f"mv {root.places.config_dir} {root.places.config_dir}.old",
        ):
            trusted = state.read_bytes()
            assert exit_of(await does(kernel, line)) != 0, line
            assert snapshot(root.folder / "tools") == before, line
            assert (state.read_bytes(), root.places.policy_file.exists()) == (trusted, True), line


NAMED = (
    ".git",
    ".git/hooks",
    ".git/hooks/x",
    ".GIT/Hooks",
    "sub/../.git/hooks",
    "h",
    "h/x",
    ".vscode",
    "deep/.vscode/x",
    "tools/policy.jsonc",
    "TOOLS/Policy.jsonc",
    "linked",
    "CLAUDE.md",
    "scripts",
)


@pytest.mark.parametrize("level", [Level.ENFORCED, Level.DEGRADED])
@pytest.mark.parametrize("declared", ["${input.out}", "${input.out}/.."])
async def test_an_input_that_names_a_protected_path_is_refused_before_anybody_is_asked(
    root: Root, level: Level, declared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold_level(level, monkeypatch)
    (root.folder / "sub").mkdir()
    (root.folder / "h").symlink_to(".git/hooks")
    os.link(root.folder / ".git/config", root.folder / "linked")
    git(root.folder, "config", "core.hooksPath", "scripts")
    os.link(root.folder / ".git/config", root.folder / "linked2")
    root.sidecar("sh", RUNS, tool("sh.do"), permissions={"fs": {"write": [declared]}})
    root.policy()
    named = [name for name in NAMED if name != "linked"] + ["linked2"]
    async with kernel_of(root) as kernel:
        before = snapshot(root.folder)
        for name in named:
            # No console answers: whoever was asked would wait for ever.
            result = await kernel.call(request(kernel, "sh.do", {"do": "true", "out": name}))
            assert (result.status, code_of(result)) == (Status.DENIED, Code.PROTECTED_PATH), (name, result)
            assert result.error is not None
            assert absolute(root, name) in result.error.message
        assert snapshot(root.folder) == before


@pytest.mark.parametrize("name", ["out", "out/new", ".", "src.git", "tools/data", "gitfile"])
async def test_an_input_that_names_another_path_is_asked_about(root: Root, name: str) -> None:
    root.sidecar("sh", RUNS, tool("sh.do"), permissions={"fs": {"write": ["${input.out}"]}})
    root.policy()
    async with kernel_of(root) as kernel:
        call = request(kernel, "sh.do", {"do": "true", "out": name})
        async with anyio.create_task_group() as group:
            group.start_soon(kernel.call, call)
            ask = await waiting_ask(kernel)
            assert ask.request.tool == "sh.do"
            group.cancel_scope.cancel()


async def test_what_landlock_cannot_hold_is_noticed_and_shown(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold_level(Level.DEGRADED, monkeypatch)
    root.sidecar("sh", RUNS, tool("sh.do"), permissions={"fs": {"write": ["."]}})
    async with kernel_of(root) as kernel:
        view = kernel.catalog().capability("sh.do")
        assert view is not None
        report = view.stability.evidence.sandbox
        assert report is not None
        assert "protected files" in report.mechanism
        for line, path in (
            ("echo '[core] fsmonitor = ./evil' >> .git/config", ".git/config"),
            ("echo evil > .git/hooks/pre-commit", ".git/hooks/pre-commit"),
            ("rm .git/hooks/*.sample", ".git/hooks/"),
        ):
            result = await does(kernel, line)
            assert code_of(result) == Code.PROTECTED_PATH, (line, result)
            assert result.error is not None
            assert path in result.error.message
        assert not (root.folder / ".git/hooks/pre-commit").exists()


@pytest.mark.usefixtures("enforced")
async def test_a_protected_file_that_others_keep_replacing_stops_no_call(root: Root) -> None:
    root.sidecar("sh", RUNS, tool("sh.do"), permissions={"fs": {"write": ["."]}})
    fresh, target, stopped = root.base / "fresh", root.folder / "CLAUDE.md", threading.Event()
    target.write_text("kept")

    def replace_it() -> None:
        while not stopped.wait(0.002):
            fresh.write_text("kept")
            os.replace(fresh, target)

    replacing = threading.Thread(target=replace_it)
    async with kernel_of(root) as kernel:
        replacing.start()
        try:
            for _ in range(5):
                result = await does(kernel, "cat CLAUDE.md; test -w .git && touch file")
                assert exit_of(result) == 0, result
        finally:
            stopped.set()
            await anyio.to_thread.run_sync(replacing.join)


@pytest.mark.usefixtures("enforced")
async def test_a_cancelled_call_leaves_nothing_behind_either(root: Root) -> None:
    root.sidecar("sh", RUNS, tool("sh.do"), permissions={"fs": {"write": ["."]}})
    async with kernel_of(root) as kernel:
        call = request(kernel, "sh.do", {"do": "echo evil > .mcp.json; touch ready; sleep 600"})
        results: list[ToolResult] = []

        async def run() -> None:
            results.append(await kernel.call(call))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await until((root.folder / "ready").exists)
            assert kernel.cancel(call.call_id)
        [result] = results
    assert code_of(result) == Code.CANCELLED
    assert any(".mcp.json" in warning for warning in result.warnings)
    assert not (root.folder / ".mcp.json").exists()


@pytest.mark.parametrize("level", [Level.ENFORCED, Level.DEGRADED])
async def test_a_process_that_serves_several_calls_is_looked_at_after_each(
    root: Root, level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold_level(level, monkeypatch)
    permissions = {"fs": {"write": ["."]}}
    root.sidecar("sh", SERVES, tool("sh.do"), kind="process-json-persistent", permissions=permissions)
    config = root.folder / ".git/config"
    before = config.read_text()
    async with kernel_of(root) as kernel:
        assert exit_of(await does(kernel, "echo x > file")) == 0
        for _ in range(2):
            result = await does(kernel, "echo evil > .mcp.json")
            assert code_of(result) == Code.PROTECTED_PATH, result
            assert not (root.folder / ".mcp.json").exists()
        result = await does(kernel, "echo '[core] fsmonitor = ./evil' >> .git/config")
        if level is Level.DEGRADED:
            assert code_of(result) == Code.PROTECTED_PATH
        else:
            assert (exit_of(result) != 0, config.read_text()) == (True, before)


async def test_flytui_s_own_tools_ask_about_each_change_whatever_a_rule_allows(root: Root) -> None:
    patch = "--- /dev/null\n+++ b/sub/.envrc\n@@ -0,0 +1 @@\n+evil\n"
    async with kernel_of(root) as kernel:
        free = {"path": "docs.md", "content": "x"}
        assert (await kernel.call(request(kernel, "workspace.write", free))).status is Status.SUCCESS
        for name, given, path in (
            ("workspace.write", {"path": "sub/CLAUDE.md", "content": "x"}, "sub/CLAUDE.md"),
            ("workspace.write", {"path": ".VSCode/tasks.json", "content": "x"}, ".VSCode/tasks.json"),
            ("workspace.patch", {"patch": patch}, "sub/.envrc"),
        ):
            async with anyio.create_task_group() as group:
                group.start_soon(kernel.call, request(kernel, name, given))
                ask = await waiting_ask(kernel)
                assert any(f"it changes {path}" in rule.because for rule in ask.request.why)
                group.cancel_scope.cancel()
            assert not (root.folder / path).exists()


@pytest.mark.usefixtures("enforced")
async def test_programs_that_the_kernel_starts_itself_are_held_as_well(root: Root) -> None:
    async with kernel_of(root) as kernel:
        for argv in (["sh", "-c", "echo evil > .git/hooks/pre-commit"], ["mv", ".git", "x"]):
            result = await kernel.call(request(kernel, "process.run", {"argv": argv}))
            assert result.sandbox is Level.ENFORCED, result
            assert isinstance(result.output, dict)
            assert result.output["exitCode"] != 0
        result = await kernel.call(request(kernel, "process.run", {"argv": ["touch", ".envrc"]}))
        assert code_of(result) == Code.PROTECTED_PATH
    assert not (root.folder / ".git/hooks/pre-commit").exists()
    assert not (root.folder / ".envrc").exists()
