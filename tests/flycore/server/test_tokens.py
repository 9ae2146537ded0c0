"""Tokens on disk: shown once, kept as a digest, gone at once."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from flycore.model.caller import parse_caller_key
from flycore.model.errors import TokenRefused
from flycore.registry.paths import TOKENS_FILE
from flycore.server.tokens import MAX_TOKENS, TokenStore, digest_of


@pytest.fixture
def book(tmp_path: Path) -> TokenStore:
    return TokenStore.load(tmp_path / "state")


def file_of(tmp_path: Path) -> Path:
    return tmp_path / "state" / TOKENS_FILE


def test_a_token_is_known_by_its_name_and_kept_nowhere(tmp_path: Path, book: TokenStore) -> None:
    first, second = book.new("claude"), book.new("ci")
    assert (book.name_of(first), book.name_of(second)) == ("claude", "ci")
    assert book.names() == ("claude", "ci")
    kept = file_of(tmp_path).read_text()
    assert first not in kept
    assert first.removeprefix("flytui_") not in kept
    assert digest_of(first) in kept
    assert stat.S_IMODE(os.stat(file_of(tmp_path)).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(tmp_path / "state").st_mode) == 0o700


def test_nothing_else_is_a_token(book: TokenStore) -> None:
    token = book.new("claude")
    (made,) = book.tokens()
    wrong = (
        "",
        " ",
        token[:-1],
        token + "x",
        token.upper(),
        f" {token}",
        made.digest,
        "claude",
        "\udcff",
        "x" * 10**6,
    )
    assert [book.name_of(presented) for presented in wrong] == [None] * len(wrong)


def test_a_revocation_counts_at_once_in_every_reader(tmp_path: Path, book: TokenStore) -> None:
    other = TokenStore.load(tmp_path / "state")
    token = book.new("claude")
    assert other.name_of(token) == "claude"
    assert book.revoke("claude")
    assert other.name_of(token) is None
    assert not book.revoke("claude")


def test_a_name_made_anew_is_another_caller(book: TokenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flycore.server.tokens.time.time", lambda: 1000.0)
    old = book.find(book.new("claude"))
    book.revoke("claude")
    new = book.find(book.new("claude"))
    assert old is not None
    assert new is not None
    assert str(new.caller("tcp")) == "claude via tcp"
    assert old.caller("tcp").key != new.caller("tcp").key
    assert new.caller("tcp").key != new.caller("http").key
    assert [parse_caller_key(key) for key in new.keys] == [new.caller("tcp"), new.caller("http")]


BAD_NAMES = ["", "A", "-x", ".x", "a b", "a" * 33, "ü", "a\n", "a/b", "../a", "tcp:a", "\x1b[2J"]


@pytest.mark.parametrize("name", BAD_NAMES, ids=range(len(BAD_NAMES)))
def test_odd_names_are_refused(book: TokenStore, name: str) -> None:
    with pytest.raises(TokenRefused, match="1 to 32"):
        book.new(name)
    assert book.names() == ()


def test_a_name_is_taken_once(book: TokenStore) -> None:
    token = book.new("claude")
    with pytest.raises(TokenRefused, match="already"):
        book.new("claude")
    assert book.name_of(token) == "claude"


def test_there_is_a_most(tmp_path: Path, book: TokenStore) -> None:
    book.new("first")
    rows = [
        {"name": f"n{number}", "digest": f"{number:064x}", "createdAt": 1} for number in range(MAX_TOKENS)
    ]
    file_of(tmp_path).write_text(json.dumps(rows))
    with pytest.raises(TokenRefused, match="256"):
        book.new("one-more")


GOOD = {"name": "a", "digest": "0" * 64, "createdAt": 1}
BROKEN = [
    b"",
    b"{",
    b"null",
    b'{"a":1}',
    b"\xff",
    json.dumps([GOOD, GOOD]).encode(),
    b'[{"name":"A","digest":"x","createdAt":1}]',
]


@pytest.mark.parametrize("data", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_file_admits_nobody_and_is_not_overwritten(
    tmp_path: Path, book: TokenStore, data: bytes
) -> None:
    token = book.new("claude")
    file_of(tmp_path).write_bytes(data)
    assert book.name_of(token) is None
    assert book.problem
    for change in (lambda: book.new("other"), lambda: book.revoke("claude")):
        with pytest.raises(TokenRefused, match="is not safe to use"):
            change()
    assert file_of(tmp_path).read_bytes() == data


def test_a_file_that_others_could_write_or_that_is_a_link_admits_nobody(
    tmp_path: Path, book: TokenStore
) -> None:
    token = book.new("claude")
    file = file_of(tmp_path)
    file.chmod(0o620)
    assert book.name_of(token) is None
    file.chmod(0o600)
    assert book.name_of(token) == "claude"
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert book.name_of(token) is None
    assert book.problem
