"""The list of files that run by themselves: one file, a reason for each name, matched at every depth."""

from __future__ import annotations

import json
from pathlib import Path

import flysafe.protected_paths
from flysafe.protected_paths import (
    DATA_FILE,
    deciding_names,
    protection_of,
    repository_parts,
    step,
)
from kits.tables import each_row

PROTECTED = (
    *(".git", ".git/hooks/pre-commit", "a/b/.GIT/config", "sub/.git", ".git/objects/ab/cd"),
    *(".husky/pre-commit", "x/.envrc", ".vscode/tasks.json", "deep/er/.vscode/settings.json", ".idea"),
    *("team.code-workspace", "a/b/X.Code-Workspace", "CLAUDE.md", "packages/a/claude.MD", "AGENTS.md"),
    *(".mcp.json", ".claude/settings.json", "a/.claude/hooks/x", ".codex/config.toml", "opencode.json"),
    *(".npmrc", "a/.yarn/releases/yarn.cjs", ".cargo/config.toml", ".bashrc", ".config/fish/config.fish"),
    *("tools/external.tools.jsonc", "TOOLS/Policy.jsonc", "sub/tools/policy.jsonc", "tools/config.jsonc"),
    *("tools/bin/x", "tools/manifests/a/tool.yml", ".flyflor/tools/x"),
)
FREE = (
    *(
        ".",
        "a",
        ".gitignore",
        ".gitattributes",
        "git/hooks/x",
        "hooks/pre-commit",
        ".github/workflows/ci.yml",
    ),
    *("docs/claude.md.txt", "CLAUDE", "vscode/tasks.json", ".claude/plans/a.md", ".claude/worktrees/a/b.py"),
    *("tools", "tools/notes/run", "sub/tools/bin/x", "Makefile", "package.json", ".env", ".config/other"),
    *("config", "a.code-workspace.bak", ".cargo/registry/x", ".yarn/cache/x"),
)


@each_row("path", PROTECTED)
def test_a_name_of_the_list_is_protected_with_what_lies_below_it(path: str) -> None:
    found = protection_of(path)
    assert found is not None
    assert found.why


@each_row("path", FREE)
def test_other_names_are_not(path: str) -> None:
    assert protection_of(path) is None


def test_every_group_of_the_list_has_a_reason_and_no_name_stands_twice() -> None:
    path = Path(flysafe.protected_paths.__file__).with_name(DATA_FILE)
    groups = json.loads(path.read_text())["groups"]
    names = [name for group in groups for name in group["names"]]
    assert len(names) == len(set(names))
    assert all(group["why"].strip() for group in groups)
    # Only the last part of a name may have a star, as the search matches it against one name alone.
    assert all("/" not in name for name in names if "*" in name)


def test_the_person_alone_changes_git_and_what_flytui_is_ruled_by() -> None:
    by_person = {path for path in PROTECTED if (found := protection_of(path)) and found.person_only}
    assert {path for path in by_person if ".git" not in path.casefold()} == {
        *("tools/external.tools.jsonc", "TOOLS/Policy.jsonc", "sub/tools/policy.jsonc"),
        *("tools/config.jsonc", ".flyflor/tools/x"),
    }
    assert set(deciding_names()) == {
        *("tools/external.tools.jsonc", "tools/policy.jsonc", "tools/config.jsonc", ".flyflor/tools"),
    }


@each_row(
    ("folder", "names", "repository"),
    [
        (".git", (), True),
        (".GIT", ("x",), True),
        ("bare", ("HEAD", "objects", "refs"), True),
        ("linked", ("HEAD", "commondir"), True),
        ("odd", ("head", "Objects", "REFS"), True),
        ("docs", ("HEAD", "objects"), False),
        ("docs", ("objects", "refs", "config", "hooks"), False),
    ],
)
def test_a_folder_is_a_repository_as_git_sees_it(
    folder: str, names: tuple[str, ...], repository: bool
) -> None:
    parts = repository_parts(folder, names)
    assert set(parts) == ({"hooks", "config", "config.worktree", "commondir"} if repository else set())


def test_a_name_of_several_parts_is_followed_from_folder_to_folder() -> None:
    hit, state = step((), ".claude")
    assert hit is None
    assert step(state, "settings.json")[0] is not None
    assert step(state, "plans")[0] is None
    assert step((), "settings.json")[0] is None
