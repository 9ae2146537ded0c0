"""What an agent's own commands and reads really do in hostile folders, and what is said of them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flycore.catalog.builtin import FETCH, READ, SHELL
from flycore.model.approval import AgentAccess
from flycore.model.enums import Risk
from flycore.pipeline.agent_access import SWITCHED_OFF, look_at_agent_call
from flycore.runners.workspace.project_files import Project
from kits.agent_project import KEY, git, make_project


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_project(tmp_path)


def look(root: Path, command: str, *, cwd: Path | str | None = None, **more: Any) -> AgentAccess:
    given = {"command": command, "cwd": str(root if cwd is None else cwd), **more}
    found = look_at_agent_call(SHELL, given, Project(root=root), switched_on=True)
    assert found is not None
    return found


def read(root: Path, tool: str, *, cwd: Path | None = None, **input: Any) -> AgentAccess:
    whole = {"tool": tool, "cwd": str(cwd or root), **input}
    found = look_at_agent_call(READ, whole, Project(root=root), switched_on=True)
    assert found is not None
    return found


# --- hostile repositories, in which git really starts the program


def evil(root: Path) -> str:
    """A program that leaves a mark beside the project."""
    program = root / "evil"
    program.write_text(f"#!/bin/sh\ntouch {root.parent / 'mark'}\ncat\nexit 0\n")
    program.chmod(0o755)
    return str(program)


def fsmonitor(root: Path) -> None:
    git(root, "config", "core.fsmonitor", evil(root))


def external_diff(root: Path) -> None:
    git(root, "config", "diff.external", evil(root))
    (root / "src/a.py").write_text("changed\n")


def driver(root: Path) -> None:
    git(root, "config", "diff.x.command", evil(root))
    (root / ".gitattributes").write_text("*.py diff=x\n")
    (root / "src/a.py").write_text("changed\n")


def textconv(root: Path) -> None:
    git(root, "config", "diff.x.textconv", evil(root))
    (root / ".gitattributes").write_text("*.py diff=x\n")


def clean_filter(root: Path) -> None:
    git(root, "config", "filter.x.clean", evil(root))
    (root / ".gitattributes").write_text("*.py filter=x\n")
    (root / "src/a.py").write_text("def main():\n    foo = 3\n")


def index_hook(root: Path) -> None:
    hook = root / ".git/hooks/post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(Path(evil(root)).read_text())
    hook.chmod(0o755)
    os.utime(root / "src/a.py", (1, 1))


def hooks_elsewhere(root: Path) -> None:
    hook = root / "tools/post-index-change"
    hook.parent.mkdir()
    hook.write_text(Path(evil(root)).read_text())
    hook.chmod(0o755)
    git(root, "config", "core.hooksPath", "tools")
    os.utime(root / "src/a.py", (1, 1))


def included(root: Path) -> None:
    (root / "more").write_text(f"[core]\n\tfsmonitor = {evil(root)}\n")
    git(root, "config", "include.path", "../more")


def per_worktree(root: Path) -> None:
    git(root, "config", "extensions.worktreeConfig", "true")
    git(root, "config", "--worktree", "core.fsmonitor", evil(root))


def signatures(root: Path) -> None:
    git(root, "config", "gpg.program", evil(root))
    git(root, "config", "log.showSignature", "true")
    key = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n"
    tree, parent = git(root, "rev-parse", "HEAD^{tree}").strip(), git(root, "rev-parse", "HEAD").strip()
    who = "a <a@example.org> 1700000000 +0000"
    (root / "commit").write_text(
        f"tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n{key}\nsigned\n"
    )
    git(root, "update-ref", "HEAD", git(root, "hash-object", "-t", "commit", "-w", "commit").strip())


def submodule(root: Path) -> None:
    other = root.parent / "other"
    git(root, "clone", "-q", str(root), str(other))
    git(root, "submodule", "add", "-q", str(other), "sub")
    git(root / "sub", "config", "core.fsmonitor", evil(root))


def gitlink(root: Path) -> None:
    """A submodule without `.gitmodules`: the index alone has it."""
    git(root, "clone", "-q", str(root), str(root / "sub"))
    git(root, "add", "sub")
    git(root / "sub", "config", "core.fsmonitor", evil(root))


HOSTILE = [
    (fsmonitor, "git status"),
    (fsmonitor, "git diff"),
    (external_diff, "git diff"),
    (driver, "git diff"),
    (textconv, "git log -p"),
    (textconv, "git show"),
    (textconv, "git blame src/a.py"),
    (clean_filter, "git status"),
    (clean_filter, "git diff"),
    (index_hook, "git status"),
    (index_hook, "git diff"),
    (hooks_elsewhere, "git status"),
    (included, "git status"),
    (per_worktree, "git status"),
    (signatures, "git log"),
    (submodule, "git status"),
    (gitlink, "git status"),
]


@pytest.mark.parametrize(("spoil", "command"), HOSTILE, ids=[f"{s.__name__}-{c}" for s, c in HOSTILE])
def test_git_in_a_hostile_repository_asks(root: Path, spoil: Callable[[Path], None], command: str) -> None:
    assert look(root, command).reads_only, "the repository is hostile by the change alone"
    spoil(root)
    found = look(root, command)
    assert not found.reads_only
    assert found.risk is Risk.HIGH
    environment = {"PATH": os.environ["PATH"], "HOME": str(root.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    (root.parent / "mark").unlink(missing_ok=True)
    subprocess.run(["bash", "-c", command], cwd=root, env=environment, capture_output=True, check=False)
    assert (root.parent / "mark").exists(), "the attack itself does not work, so the test shows nothing"


def test_a_folder_that_looks_like_a_repository_asks(root: Path) -> None:
    """A clone can bring a repository without a work tree, whose settings git takes."""
    bare = root / "vendor"
    git(root, "clone", "-q", "--bare", str(root), str(bare))
    work = (
        f"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = {evil(root)}\n"
    )
    (bare / "config").write_text(work)
    command = f"cd {bare} && git status"
    assert not look(root, command).reads_only
    assert not look(root, "git status", cwd=bare).reads_only
    environment = {"PATH": os.environ["PATH"], "HOME": str(root.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["bash", "-c", command], env=environment, capture_output=True, check=False)
    assert (root.parent / "mark").exists()


def test_a_repository_that_lies_elsewhere_asks(root: Path) -> None:
    (root / ".git").rename(root.parent / "elsewhere")
    assert not look(root, "git log").reads_only, "the repository above the project is not looked for"
    (root / ".git").write_text(f"gitdir: {root.parent / 'elsewhere'}\n")
    assert not look(root, "git log").reads_only
    (root / ".git").unlink()
    (root / ".git").symlink_to(root.parent / "elsewhere")
    assert not look(root, "git log").reads_only


def test_objects_of_another_repository_ask(root: Path) -> None:
    (root / ".git/objects/info").mkdir(exist_ok=True)
    (root / ".git/objects/info/alternates").write_text("/srv/private.git/objects\n")
    assert not look(root, "git show HEAD").reads_only


@pytest.mark.parametrize(
    "config",
    [
        "[core]\n\tfsmonitor\n",
        '[core]\n\tfilemode = true\n[core "x"]\n\tfsmonitor = ./evil\n',
        "[CORE]\n\tFSMONITOR = ./evil\n",
        "[core] fsmonitor = ./evil\n",
        "[core]\n\tbare = false \\\n\tfsmonitor = ./evil\n",
        '[branch "a\\"b"]\n\tmerge = x\n',
        "[alias]\n\tst = !./evil\n",
        "\ufeff[core]\n\tfsmonitor = ./evil\n",
        "fsmonitor = ./evil\n",
    ],
)
def test_settings_in_any_way_of_writing_ask(root: Path, config: str) -> None:
    (root / ".git/config").write_text(config)
    assert not look(root, "git status").reads_only


def test_plain_settings_and_many_entries_of_the_index_ask_nobody(root: Path) -> None:
    for number in range(300):
        (root / f"src/file{number}.txt").write_text("x")
    git(root, "add", "-A")
    for key, value in (
        ("core.autocrlf", "input"),
        ("branch.main.remote", "origin"),
        ("user.name", "A Person"),
    ):
        git(root, "config", key, value)
    for version in ("2", "4"):
        git(root, "update-index", "--index-version", version)
        assert look(root, "git status").reads_only, version
    git(root, "config", "core.hooksPath", ".husky/_")
    assert look(root, "git status").reads_only


# --- the shell


def test_a_program_of_the_project_in_the_path_asks(root: Path) -> None:
    (root / "node_modules/.bin").mkdir(parents=True)
    (root / "node_modules/.bin/ls").write_text("#!/bin/sh\n")
    assert not look(root, "ls", programFolders=["node_modules/.bin"]).reads_only
    assert not look(root, "cat README.md | ls", programFolders=["node_modules/.bin"]).reads_only
    assert look(root, "cat README.md", programFolders=["node_modules/.bin"]).reads_only


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({"timeout": 5}, True),
        ({"run_in_background": True}, True),
        ({"dangerouslyDisableSandbox": True}, False),
        ({"shell": "PowerShell"}, False),
    ],
)
def test_options_that_are_not_known_ask(root: Path, options: dict[str, Any], allowed: bool) -> None:
    assert look(root, "ls", options=options).reads_only is allowed


def test_a_folder_outside_or_none_asks(root: Path) -> None:
    for cwd in ("", "src", str(root.parent), "/", f"{root}/../outside", f"{root}/out", f"{root}\0"):
        assert not look(root, "ls", cwd=cwd).reads_only, cwd
    assert look(root, "ls", cwd=root / "src").reads_only
    assert look(root, "cat ../README.md", cwd=root / "src").reads_only
    assert not look(root, "cat ../../outside/key", cwd=root / "src").reads_only


def test_cd_up_from_behind_a_link_asks(root: Path) -> None:
    (root / "deep/er").mkdir(parents=True)
    (root / "link").symlink_to("deep/er")
    assert not look(root, "cd .. && ls", cwd=root / "link").reads_only
    assert look(root, "cd .. && ls", cwd=root / "deep").reads_only


def test_other_actions_are_not_looked_at(root: Path) -> None:
    assert (
        look_at_agent_call(FETCH, {"url": "https://example.org/"}, Project(root=root), switched_on=True)
        is None
    )
    assert look_at_agent_call(SHELL, None, Project(root=root), switched_on=True) is None


def test_switched_off_it_allows_nothing_and_still_rates(root: Path) -> None:
    given = {"command": "ls", "cwd": str(root)}
    found = look_at_agent_call(SHELL, given, Project(root=root), switched_on=False)
    assert found == AgentAccess(reads_only=False, why=SWITCHED_OFF, risk=Risk.LOW)


def test_the_state_of_flytui_in_the_project_asks(root: Path) -> None:
    (root / "state").mkdir()
    closed = Project(root=root, closed=("state",))
    found = look_at_agent_call(SHELL, {"command": "ls state", "cwd": str(root)}, closed, switched_on=True)
    assert found is not None
    assert not found.reads_only


# --- the agent's own tools


def test_reads_inside_the_folder_need_nobody(root: Path) -> None:
    assert read(root, "Read", path=str(root / "README.md")).reads_only
    assert read(root, "Read", path="src/a.py", options={"offset": 1, "limit": 5}).reads_only
    assert read(root, "Read", path="inside/a.py").reads_only
    assert read(root, "Grep", pattern="foo").reads_only
    assert read(root, "Grep", pattern="foo", path="src", options={"glob": "*.py", "-n": True}).reads_only
    assert read(root, "Glob", pattern="**/*.py").reads_only
    assert read(root, "Glob", pattern="src/**/*.py", path=str(root)).reads_only
    assert read(root, "LS", path=str(root)).reads_only


@pytest.mark.parametrize(
    ("tool", "input"),
    [
        ("Read", {"path": "/etc/passwd"}),
        ("Read", {"path": "../outside/key"}),
        ("Read", {"path": "out/key"}),
        ("Read", {"path": "leaky/key"}),
        ("Read", {"path": "inside/../../outside/key"}),
        ("Read", {"path": ".env"}),
        ("Read", {"path": ".git/config"}),
        ("Read", {"path": "README.md", "options": {"follow": "/etc/passwd"}}),
        ("Read", {"path": "README.md\0"}),
        ("Grep", {"pattern": "KEY", "path": ".env"}),
        ("Grep", {"pattern": "KEY", "path": "out"}),
        ("Grep", {"pattern": "KEY", "options": {"glob": ".env"}}),
        ("Grep", {"pattern": "KEY", "options": {"glob": "*"}}),
        ("Grep", {"pattern": "KEY", "options": {"type": "sh"}}),
        ("Grep", {"pattern": "KEY", "path": "/"}),
        ("Glob", {"pattern": "/etc/*"}),
        ("Glob", {"pattern": "../*"}),
        ("Glob", {"pattern": "src/../../*"}),
        ("Glob", {"pattern": "{..,src}/*"}),
        ("Glob", {"pattern": "out/*"}),
        ("Glob", {"pattern": "*", "path": "/home"}),
        ("Glob", {"pattern": "{src,/etc}/*"}),
        ("Glob", {"pattern": "file:///etc/*"}),
        ("Glob", {"pattern": "*", "path": "file:///etc"}),
        ("Glob", {"pattern": "~/*"}),
        ("Glob", {"pattern": "{FILE:///etc,src}/*"}),
        ("LS", {"path": "/"}),
        ("LS", {"path": "~"}),
        ("Grep", {"pattern": "KEY", "path": "file://localhost/etc"}),
        ("Read", {"path": "~/notes.txt"}),
        ("Read", {"path": "~root/notes.txt"}),
        ("Read", {"path": "http://127.0.0.1/notes.txt"}),
        ("Read", {"path": "vscode-remote://host/notes.txt"}),
        ("WebFetch", {"path": "file:///etc/passwd", "options": {"prompt": "x"}}),
        ("WebFetch", {"path": "README.md"}),
        ("NotebookRead", {"path": "/etc/x.ipynb"}),
        ("Unheard", {"path": "README.md"}),
    ],
)
def test_reads_that_leave_the_folder_or_show_secrets_ask(
    root: Path, tool: str, input: dict[str, Any]
) -> None:
    assert not read(root, tool, **input).reads_only


@pytest.mark.parametrize(
    "address",
    [
        "file:///etc/passwd",
        "file:/etc/passwd",
        "FILE:///etc/passwd",
        "fIlE:/etc/passwd",
        " file:///etc/passwd",
        "fi\tle:///etc/passwd",
        "file:////etc/passwd",
        "file://localhost/etc/passwd",
        "file://LocalHost/etc/passwd",
        "file:\\\\\\etc\\passwd",
        "file:///%65tc/passwd",
        "file:///%2Fetc%2Fpasswd",
        "file:///%2565tc/passwd",
        "file:///%zz",
        "file:///%ff",
        "file:///%00",
        "file://server/etc/passwd",
        "file://%6cocalhost/etc/passwd",
        "file:README.md",
        "file:",
        "file://{root}/../outside/key",
        "file://{root}/%2e%2e/outside/key",
        "file://{root}/out/key",
        "file://{root}/%2Eenv",
        "file://{root}/.env?x=1",
        "file://{root}/.env#x",
        "file://{root}/.git/config",
    ],
)
@pytest.mark.parametrize("tool", ["Read", "NotebookRead", "WebFetch"])
def test_an_address_of_a_file_is_read_as_its_path(root: Path, tool: str, address: str) -> None:
    found = read(root, tool, path=address.replace("{root}", str(root)))
    assert (found.reads_only, found.risk) == (False, Risk.HIGH), found.why


@pytest.mark.parametrize(
    "address", ["file://{root}/README.md", "FILE:{root}/README.md", "file://localhost{root}/src/%61.py#L3"]
)
@pytest.mark.parametrize("tool", ["Read", "WebFetch"])
def test_an_address_of_a_file_of_the_project_needs_nobody(root: Path, tool: str, address: str) -> None:
    assert read(root, tool, path=address.replace("{root}", str(root))).reads_only


def test_an_address_is_also_taken_for_the_path_that_it_may_be(root: Path) -> None:
    (root / "file:").symlink_to(root.parent / "outside")
    assert not read(root, "Read", path=f"file:{root}/README.md").reads_only


def test_a_search_goes_past_secrets_only_where_git_ignores_them(root: Path) -> None:
    assert read(root, "Grep", pattern="KEY").reads_only, ".env is ignored"
    (root / "src/server.pem").write_text("KEY")
    assert not read(root, "Grep", pattern="KEY").reads_only
    assert read(root, "Grep", pattern="KEY", path="docs").reads_only
    (root / "src/server.pem").unlink()
    (root / ".gitignore").write_text(".env\n!.env\n")
    assert not read(root, "Grep", pattern="KEY").reads_only
    (root / ".gitignore").write_text(".env\n")
    (root / "src/.ignore").write_text("!.env\n")
    assert not read(root, "Grep", pattern="KEY").reads_only


def test_a_folder_that_cannot_be_listed_asks(root: Path) -> None:
    (root / "src/deep").mkdir()
    assert read(root, "Grep", pattern="x", path="src").reads_only
    (root / "src/deep").chmod(0)
    try:
        if os.access(root / "src/deep", os.R_OK):
            pytest.skip("this user may list every folder")
        assert not read(root, "Grep", pattern="x", path="src").reads_only
    finally:
        (root / "src/deep").chmod(0o755)


# --- what git reads by itself, and what never ends


def split_repository(root: Path) -> Path:
    """A folder that git takes for a repository, with objects and settings below it. A clone can bring it."""
    place = root / "docs/b"
    place.mkdir()
    git(root, "clone", "-q", "--bare", str(root), str(place / "real"))
    (place / "HEAD").write_text("ref: refs/heads/main\n")
    (place / "commondir").write_text("real\n")
    program = evil(root)
    (place / "real/config").write_text(
        f'[core]\n\trepositoryformatversion = 0\n[diff "x"]\n\ttextconv = {program}\n'
    )
    (place / "real/info/attributes").write_text("* diff=x\n")
    return place


@pytest.mark.parametrize(
    "command", ["git -C docs/b show", "cd ./docs/b && git log -p", "git -C docs/b/below log -p"]
)
def test_a_repository_that_names_another_folder_for_its_settings_asks(root: Path, command: str) -> None:
    place = split_repository(root)
    (place / "below").mkdir()
    found = look(root, command)
    assert not found.reads_only
    assert found.risk is Risk.HIGH
    environment = {"PATH": os.environ["PATH"], "HOME": str(root.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["bash", "-c", command], cwd=root, env=environment, capture_output=True, check=False)
    assert (root.parent / "mark").exists(), "the attack itself does not work, so the test shows nothing"


@pytest.mark.parametrize("spoilt", ["empty", "text", "headless"])
def test_an_invalid_repository_in_front_asks(root: Path, spoilt: str) -> None:
    """git passes over it, and uses the one of a folder further up."""
    (root / "vendor").mkdir()
    git(root, "clone", "-q", str(root), str(root / "vendor/x"))
    own = root / "vendor/x/.git"
    assert look(root, "git -C vendor/x status").reads_only
    if spoilt == "headless":
        (own / "HEAD").unlink()
    else:
        own.rename(own.with_name("before"))
        own.mkdir() if spoilt == "empty" else own.write_text("anything\n")
    assert not look(root, "git -C vendor/x status").reads_only
    assert not look(root, "cd ./vendor/x && git diff").reads_only
    assert look(root, "git status").reads_only


@pytest.mark.parametrize(
    "name", ["logs/HEAD", "info/exclude", "rebase-merge", "refs/heads/x", "worktrees/x/locked"]
)
def test_a_link_anywhere_in_a_repository_asks(root: Path, name: str) -> None:
    place = root / ".git" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    assert look(root, "git log").reads_only
    place.symlink_to(root.parent / "outside/key")
    assert not look(root, "git log").reads_only


def test_a_tracked_folder_that_became_a_link_asks(root: Path) -> None:
    (root / "data").mkdir()
    (root / "data/key").write_text("x\n")
    git(root, "add", "data")
    assert look(root, "git grep KEY").reads_only
    (root / "data").rename(root / "before")
    (root / "data").symlink_to(root.parent / "outside")
    shown = git(root, "grep", KEY)
    assert KEY in shown, "the attack itself does not work, so the test shows nothing"
    assert not look(root, "git grep KEY").reads_only
    (root / "data").unlink()
    (root / "data").symlink_to("before")
    assert look(root, "git grep KEY").reads_only


def test_git_compares_no_files_outside_of_its_repository(root: Path) -> None:
    git(root, "clone", "-q", str(root), str(root / "vendor"))
    assert look(root, "git -C vendor diff src/a.py README.md").reads_only
    assert not look(root, "git -C vendor diff ../src ../docs").reads_only


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("https://a:p@example.org/x", False),
        ("https://token@example.org/x", False),
        ("ssh://git@example.org/x", True),
        ("git@example.org:x.git", True),
    ],
)
def test_addresses_with_a_password_are_not_shown(root: Path, address: str, allowed: bool) -> None:
    git(root, "remote", "add", "other", address)
    for command in ("git remote -v", "git remote --verbose", "git remote get-url other", "git reflog -3"):
        assert look(root, command).reads_only is allowed, command
    assert look(root, "git remote").reads_only
    assert look(root, "git log").reads_only


def test_a_password_in_older_files_or_in_the_persons_settings_is_not_shown(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = root.parent / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    assert look(root, "git remote -v").reads_only
    (home / ".gitconfig").write_text('[url "https://a:p@example.org/"]\n\tinsteadOf = https://example.org/\n')
    assert "a:p" in git_at_home(root, home, "remote", "-v")
    assert not look(root, "git remote -v").reads_only
    (home / ".gitconfig").unlink()
    (root / ".git/branches").mkdir(exist_ok=True)
    assert look(root, "git remote -v").reads_only
    (root / ".git/branches/older").write_text("https://a:p@example.org/x\n")
    assert not look(root, "git remote -v").reads_only


def git_at_home(root: Path, home: Path, *words: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *words], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_pipes_and_devices_ask(root: Path) -> None:
    os.mkfifo(root / "src/pipe")
    (root / "link").symlink_to("src/pipe")
    for command in (
        "cat src/pipe",
        "head -c 1 link",
        "cat src/*",
        "grep x src/pipe",
        "rg x src/pipe",
        "wc -l link",
    ):
        found = look(root, command)
        assert not found.reads_only, command
        assert found.risk is Risk.MEDIUM, command
    for command in ("ls -l src", "stat src/pipe", "grep -r foo src", "rg foo src", "find src", "git status"):
        assert look(root, command).reads_only, command
    assert not read(root, "Read", path="src/pipe").reads_only


@pytest.mark.parametrize("name", [".gitignore", ".ignore", ".rgignore"])
def test_a_search_whose_rules_lie_elsewhere_asks(root: Path, name: str) -> None:
    place = root / "src/lib" / name
    for command in ("rg foo", "rg foo src", "rg --files src", "rg foo src/lib"):
        place.unlink(missing_ok=True)
        assert look(root, command).reads_only, command
        place.symlink_to(root.parent / "outside/key")
        assert not look(root, command).reads_only, command
        place.unlink()
        os.mkfifo(place)
        assert not look(root, command).reads_only, command
        place.unlink()
        place.write_text("*.txt\n")
        assert look(root, command).reads_only, command
    place.unlink()
    place.symlink_to(root.parent / "outside/key")
    assert not read(root, "Grep", pattern="foo").reads_only
    place.unlink()
    place.symlink_to("../../README.md")
    assert look(root, "rg foo").reads_only
    assert read(root, "Grep", pattern="foo", path="docs").reads_only
    (root / ".git/info/exclude").unlink()
    (root / ".git/info/exclude").symlink_to(root.parent / "outside/key")
    for command in ("rg foo", "rg foo docs", "rg --hidden foo docs"):
        assert not look(root, command).reads_only, command
    assert not read(root, "Grep", pattern="foo", path="docs").reads_only


def test_a_search_does_not_look_at_what_git_ignores(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flycore.pipeline.agent_access.MOST_SEARCHED_ENTRIES", 100)
    (root / "node_modules").mkdir()
    for number in range(100):
        (root / f"node_modules/{number}").write_text("")
    assert not look(root, "rg foo").reads_only
    (root / ".gitignore").write_text(".env\nnode_modules/\n")
    assert look(root, "rg foo").reads_only
    (root / ".gitignore").write_text(".env\nnode_modules/\n!node_modules\n")
    assert not look(root, "rg foo").reads_only
