"""A value in one file: what is read, what is refused, and what stays in force."""

from __future__ import annotations

import os
import re
import resource
import stat
from pathlib import Path

import msgspec
import pytest

from flycore.model.base import Value
from flycore.store.json_store import Store, StoreDamaged

MOST_BYTES = 200
Numbers = dict[str, int]


class Secret(Value, frozen=True, kw_only=True):
    """A value with a field of one kind."""

    token: int


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "numbers.json"


def numbers(path: Path | None) -> Store[Numbers]:
    return Store[Numbers](path, Numbers, {"default": 0}, MOST_BYTES)


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(data)


def test_a_value_is_there_for_the_next_reader_and_for_this_user_alone(path: Path) -> None:
    store = numbers(path)
    assert (store.value, store.why_unread, path.exists()) == ({"default": 0}, "", False)
    store.write({"a": 1})
    assert (store.value, numbers(path).value) == ({"a": 1}, {"a": 1})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == [path.name]


def damage(path: Path, kind: str) -> None:
    path.parent.mkdir(mode=0o700)
    good = b'{"a": 1}'
    match kind:
        case "link":
            write(path.with_suffix(".real"), good)
            path.symlink_to(path.with_suffix(".real"))
        case "writable by a group":
            write(path, good)
            path.chmod(0o620)
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "large":
            write(path, good + b" " * MOST_BYTES)
        case _:
            contents = {"empty": b"", "broken": b"{", "type": b'{"a": "b"}', "not Unicode": b'{"\xff": 1}'}
            write(path, contents[kind])


KINDS = ("link", "writable by a group", "folder", "pipe", "large", "empty", "broken", "type", "not Unicode")


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_cannot_be_relied_on_leaves_the_default_and_says_why(path: Path, kind: str) -> None:
    damage(path, kind)
    store = numbers(path)
    assert store.value == {"default": 0}
    assert store.why_unread
    assert str(path) not in store.why_unread
    content = kind in ("empty", "broken", "type", "not Unicode")
    with pytest.raises(StoreDamaged if content else OSError, match=re.escape(store.why_unread)):
        store.read()
    if kind != "folder":
        assert store.replace({"a": 2}) == ""
        assert (store.why_unread, numbers(path).value) == ("", {"a": 2})


def test_depth_that_no_reader_has_is_damage(path: Path) -> None:
    write(path, b"[" * 5_000)
    store = Store[list[object]](path, list[object], [], 10_000)
    assert (store.value, bool(store.why_unread)) == ([], True)


@pytest.mark.root
def test_the_file_of_another_user_is_not_read(path: Path) -> None:
    write(path, b'{"a": 1}')
    os.chown(path, 12345, -1)
    assert (numbers(path).value, bool(numbers(path).why_unread)) == ({"default": 0}, True)


def test_a_value_that_is_not_usable_is_damage(path: Path) -> None:
    def fault(found: Numbers) -> str:
        return "" if len(found) < 2 else "it has two numbers"

    store = Store[Numbers](path, Numbers, {}, MOST_BYTES, fault=fault)
    write(path, b'{"a": 1, "b": 2}')
    assert (store.value, store.why_unread) == ({}, "it has two numbers")
    write(path, b'{"a": 1}')
    store.reload()
    assert (store.value, store.why_unread) == ({"a": 1}, "")


def test_a_secret_is_neither_readable_for_others_nor_quoted(path: Path) -> None:
    write(path, b'{"token": 1}')
    path.chmod(0o640)
    store = Store[Secret | None](path, Secret, None, MOST_BYTES, secret=True)
    assert (store.value, "0600" in store.why_unread) == (None, True)
    path.chmod(0o600)
    store.refresh()
    assert store.value == Secret(token=1)
    write(path, b'{"token": hunter2}')
    store.refresh()
    assert store.value is None
    assert "damaged" in store.why_unread
    assert "token" not in store.why_unread


def test_a_failed_write_leaves_the_earlier_value_in_the_file_and_in_force(path: Path) -> None:
    store = numbers(path)
    store.write({"a": 1})
    assert "larger" in store.replace({"x" * MOST_BYTES: 1})
    assert "Unicode" in store.replace({"\ud800": 1})
    with pytest.raises(OSError, match="larger"):
        store.write({"x" * MOST_BYTES: 1})
    assert (store.value, numbers(path).value) == ({"a": 1}, {"a": 1})


def test_a_folder_that_takes_no_file_is_a_reason_and_no_exception(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = numbers(tmp_path / "file" / "numbers.json")
    why = store.replace({"a": 1})
    assert why
    assert str(tmp_path) not in why
    assert store.value == {"default": 0}


def test_the_file_is_read_again_only_when_told_and_by_refresh_only_when_it_changed(path: Path) -> None:
    store, other = numbers(path), numbers(path)
    assert other.value == {"default": 0}
    store.write({"a": 1})
    assert other.value == {"default": 0}
    other.refresh()
    assert other.value == {"a": 1}
    held = other.value
    other.refresh()
    assert other.value is held
    other.reload()
    assert other.value is not held
    path.unlink()
    other.refresh()
    assert (other.value, other.why_unread) == ({"default": 0}, "")


def test_a_damaged_file_does_not_leave_the_earlier_value_in_force(path: Path) -> None:
    store = numbers(path)
    store.write({"a": 1})
    path.chmod(0o666)
    store.refresh()
    assert (store.value, bool(store.why_unread)) == ({"default": 0}, True)
    path.chmod(0o600)
    store.refresh()
    assert (store.value, store.why_unread) == ({"a": 1}, "")


def test_a_reason_that_passes_is_gone_at_the_next_refresh(path: Path) -> None:
    store = numbers(path)
    store.write({"a": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        store.reload()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (store.value, bool(store.why_unread)) == ({"default": 0}, True)
    store.refresh()
    assert (store.value, store.why_unread) == ({"a": 1}, "")


def test_without_a_path_the_value_is_in_memory(tmp_path: Path) -> None:
    store = numbers(None)
    assert (store.value, store.replace({"a": 1}), store.value) == ({"default": 0}, "", {"a": 1})
    store.refresh()
    assert store.value == {"default": 0}
    assert os.listdir(tmp_path) == []


def test_no_descriptor_is_left_open(path: Path) -> None:
    damage(path, "folder")
    before = os.listdir("/proc/self/fd")
    for _ in range(5):
        numbers(path).reload()
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_pieces_of_json_are_kept_as_they_are(path: Path) -> None:
    store = Store[tuple[msgspec.Raw, ...]](path, tuple[msgspec.Raw, ...], (), MOST_BYTES)
    store.write((msgspec.Raw(b'{"b":1,"a":[]}'), msgspec.Raw(b'"x"')))
    again = Store[tuple[msgspec.Raw, ...]](path, tuple[msgspec.Raw, ...], (), MOST_BYTES)
    assert [bytes(piece) for piece in again.value] == [b'{"b":1,"a":[]}', b'"x"']
