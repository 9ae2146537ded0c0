"""What the files of a repository mean, from their bytes alone."""

from __future__ import annotations

import struct

import pytest

from flycore.policy.agent_commands.git_repository import (
    RepositoryFiles,
    config_items,
    index_entries,
    is_plain,
    look_at,
)
from kits.tables import each_row

PLAIN = """[core]
\trepositoryformatversion = 0
\tfilemode = true
; a remark
[remote "origin"]
\turl = https://example.org/x.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "feature/x"]
\tmerge = refs/heads/main
"""


def test_what_git_itself_writes_is_plain() -> None:
    found = look_at(
        RepositoryFiles(config=PLAIN, names=frozenset(("HEAD", "config")), hooks=frozenset(("x.sample",)))
    )
    assert (found.objection, found.has_password) == ("", False)
    assert dict(config_items(PLAIN))["branch.feature/x.merge"] == "refs/heads/main"


@each_row(
    "files",
    [
        RepositoryFiles(irregular=frozenset(("config",))),
        RepositoryFiles(names=frozenset(("commondir",))),
        RepositoryFiles(names=frozenset(("config.worktree",))),
        RepositoryFiles(alternates=True),
        RepositoryFiles(hooks=frozenset(("post-index-change",))),
        RepositoryFiles(config="[core]\n\tfsmonitor = x\n"),
        RepositoryFiles(config="[extensions]\n\tpartialClone = origin\n"),
        RepositoryFiles(config='[remote "origin"]\n\tpromisor = true\n'),
        RepositoryFiles(config='[remote "origin"]\n\tuploadpack = ./evil\n'),
        RepositoryFiles(config="[include]\n\tpath = x\n"),
        RepositoryFiles(config='[includeIf "x"]\n\tpath = x\n'),
        RepositoryFiles(config="[core]\n\tworktree = /\n"),
        RepositoryFiles(config="[core]\n\tfilemode = true ; [core]\n"),
        RepositoryFiles(index=b"DIRC"),
        RepositoryFiles(index=struct.pack(">4sII", b"DIRC", 9, 0)),
        RepositoryFiles(index=struct.pack(">4sII", b"DIRC", 2, 5)),
    ],
)
def test_whatever_may_start_or_read_more_is_objected_to(files: RepositoryFiles) -> None:
    assert look_at(files).objection


def test_passwords_and_hooks_elsewhere_are_found() -> None:
    assert look_at(RepositoryFiles(config="[core]\n\thooksPath = tools\n")).hooks_path == "tools"


def entry(mode: int, name: bytes) -> bytes:
    head = bytes(24) + struct.pack(">I", mode) + bytes(32) + struct.pack(">H", len(name))
    return (head + name).ljust((len(head) + len(name) + 8) & ~7, b"\0")


def test_repositories_and_folders_of_the_index_are_found_between_other_entries() -> None:
    entries = [
        entry(0o100644, b"a"), entry(0o100644, b"b/c/d"), entry(0o160000, b"sub/x"), entry(0o120000, b"z"),
    ]  # fmt: skip
    index = struct.pack(">4sII", b"DIRC", 2, len(entries)) + b"".join(entries) + bytes(20)
    found = look_at(RepositoryFiles(index=index))
    assert (found.objection, found.submodules) == ("", ("sub/x",))
    assert found.folders == {"b", "b/c", "sub"}
    split = index[:-20] + struct.pack(">4sI", b"link", 20) + bytes(20) + bytes(20)
    with pytest.raises(ValueError, match="split"):
        list(index_entries(split))


@each_row(
    ("key", "plain"),
    [
        ("core.filemode", True),
        ("remote.origin.url", True),
        ("branch.a.b.merge", True),
        ("core.fsmonitor", False),
        ("diff.external", False),
        ("diff.x.textconv", False),
        ("filter.x.clean", False),
        ("alias.st", False),
        ("remote.origin.proxy", False),
        ("submodule.x.update", False),
        ("core.pager", False),
        ("pager.log", False),
        ("gpg.program", False),
        ("core.sshcommand", False),
        ("core.x.filemode", False),
    ],
)
def test_keys(key: str, plain: bool) -> None:
    assert is_plain(key) is plain


@each_row(
    ("address", "secret"),
    [
        ("https://u:p@example.org/x", True),
        ("https://token@example.org/x", True),
        ("https://example.org/x?private_token=t", True),
        ("HTTP://u:p@example.org", True),
        ("ssh://u:p@example.org/x", True),
        ("ssh://git@example.org/x", False),
        ("git+ssh://git@example.org/x", False),
        ("https://example.org/x", False),
        ("https://example.org/x@y", False),
        ("git@example.org:x/y.git", False),
        ("../other", False),
    ],
)
def test_passwords_in_addresses_are_found(address: str, secret: bool) -> None:
    for config in (f'[remote "o"]\n\turl = {address}\n', f'[remote "o"]\n\tpushurl = {address}\n'):
        assert look_at(RepositoryFiles(config=config)).has_password is secret
    assert bool(look_at(RepositoryFiles(config=f'[branch "b"]\n\tremote = {address}\n')).objection) is secret
