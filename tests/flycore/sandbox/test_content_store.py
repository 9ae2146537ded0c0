"""The content store: what is run from it is what its name says, whoever wrote there, and it cleans up."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flycore.sandbox import content_store
from flycore.sandbox.content_store import KEPT_SECONDS, SealBrokenError, prune, store_copy
from flycore.sandbox.digests import copy_digest, tree_digest

DAY = 86_400.0


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    (root / "lib").mkdir(parents=True)
    (root / "run").write_text('#!/bin/sh\n. "$(dirname "$0")/lib/say.sh"\n')
    (root / "run").chmod(0o755)
    (root / "lib" / "say.sh").write_text("echo good\n")
    return root


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "data" / "store"


def entries(store: Path) -> list[str]:
    return sorted(path.name for path in store.iterdir() if path.name != ".lock")


def said(copy: Path) -> str:
    return subprocess.run([copy / "run"], capture_output=True, text=True, check=True).stdout


def test_the_same_content_is_one_copy_that_is_used_again(source: Path, store: Path) -> None:
    content = tree_digest(str(source))
    first = store_copy(store, content, str(source))
    made = (first / "run").stat()
    assert (first, said(first)) == (store / content, "good\n")
    assert store_copy(store, content, str(source)) == first
    assert (first / "run").stat().st_ino == made.st_ino
    assert entries(store) == [content]
    assert store.stat().st_mode & 0o777 == 0o700


def test_a_copy_outlives_its_source(source: Path, store: Path) -> None:
    content = tree_digest(str(source))
    store_copy(store, content, str(source))
    (source / "lib" / "say.sh").write_text("echo evil\n")
    assert said(store_copy(store, content, str(source))) == "good\n"


def test_a_changed_source_is_never_copied_under_the_old_name(source: Path, store: Path) -> None:
    content = tree_digest(str(source))
    (source / "lib" / "say.sh").write_text("echo evil\n")
    with pytest.raises(SealBrokenError, match="is not what was sealed"):
        store_copy(store, content, str(source))
    assert entries(store) == []


def _write(copy: Path) -> None:
    (copy / "lib" / "say.sh").chmod(0o600)
    (copy / "lib" / "say.sh").write_text("echo evil\n")
    (copy / "lib" / "say.sh").chmod(0o400)


def _keep_times(copy: Path) -> None:
    about = (copy / "lib" / "say.sh").stat()
    _write(copy)
    os.utime(copy / "lib" / "say.sh", ns=(about.st_atime_ns, about.st_mtime_ns))


def _add(copy: Path) -> None:
    copy.chmod(0o700)
    (copy / "more").write_text("x")
    copy.chmod(0o500)


def _other_folder(copy: Path) -> None:
    copy.rename(copy.parent / "elsewhere")
    copy.mkdir()
    (copy / "run").write_text("#!/bin/sh\necho evil\n")
    (copy / "run").chmod(0o500)


def _link(copy: Path) -> None:
    copy.rename(copy.parent / "elsewhere")
    copy.symlink_to("elsewhere")


def _file(copy: Path) -> None:
    copy.rename(copy.parent / "elsewhere")
    copy.write_text("#!/bin/sh\necho evil\n")


def _empty(copy: Path) -> None:
    copy.rename(copy.parent / "elsewhere")
    copy.mkdir()


def _add_below(copy: Path) -> None:
    (copy / "lib").chmod(0o700)
    (copy / "lib" / "more").write_text("x")
    (copy / "lib").chmod(0o500)


def _remove(copy: Path) -> None:
    (copy / "lib").chmod(0o700)
    (copy / "lib" / "say.sh").unlink()
    (copy / "lib").chmod(0o500)


def _make_runnable(copy: Path) -> None:
    (copy / "lib" / "say.sh").chmod(0o500)


def _replace(copy: Path) -> None:
    (copy / "lib").chmod(0o700)
    (copy / "lib" / "new").write_text("echo evil\n")
    (copy / "lib" / "new").chmod(0o400)
    (copy / "lib" / "new").rename(copy / "lib" / "say.sh")
    (copy / "lib").chmod(0o500)


TAMPERING = [
    *(_write, _keep_times, _add, _other_folder, _link, _file, _empty),
    *(_add_below, _remove, _make_runnable, _replace),
]


@pytest.mark.parametrize("tamper", TAMPERING)
def test_a_copy_that_was_checked_before_is_looked_at_each_time(
    tamper: Callable[[Path], None], source: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = tree_digest(str(source))
    copy = store_copy(store, content, str(source))
    # What was made a moment ago is listed and read each time.
    while str(copy) not in content_store._checked:
        time.sleep(0.01)
        store_copy(store, content, str(source))
    with monkeypatch.context() as patched:
        patched.delattr(content_store, "copy_digest")
        assert store_copy(store, content, str(source)) == copy
    tamper(copy)
    again = store_copy(store, content, str(source))
    assert said(again) == "good\n"
    assert not again.is_symlink()
    assert copy_digest(str(again)) == content


@pytest.mark.parametrize("tamper", TAMPERING)
def test_a_touched_copy_is_made_again(tamper: Callable[[Path], None], source: Path, store: Path) -> None:
    content = tree_digest(str(source))
    tamper(store_copy(store, content, str(source)))
    again = store_copy(store, content, str(source))
    assert said(again) == "good\n"
    assert not again.is_symlink()
    assert copy_digest(str(again)) == content


@pytest.mark.parametrize("tamper", TAMPERING)
def test_a_touched_copy_without_its_source_is_refused(
    tamper: Callable[[Path], None], source: Path, store: Path
) -> None:
    content = tree_digest(str(source))
    tamper(store_copy(store, content, str(source)))
    (source / "run").write_text("#!/bin/sh\necho evil\n")
    with pytest.raises(SealBrokenError):
        store_copy(store, content, str(source))


@pytest.mark.parametrize("what", ["link", "file", "open to others"])
def test_a_store_that_is_not_ours_alone_is_refused(what: str, source: Path, store: Path) -> None:
    store.parent.mkdir()
    if what == "link":
        (store.parent / "elsewhere").mkdir()
        store.symlink_to("elsewhere")
    elif what == "file":
        store.write_text("")
    else:
        store.mkdir()
        store.chmod(0o777)
    with pytest.raises(SealBrokenError):
        store_copy(store, tree_digest(str(source)), str(source))


def test_a_full_disk_stops_the_run_and_leaves_nothing(source: Path, store: Path) -> None:
    (source / "big").write_bytes(bytes(100_000))
    content = tree_digest(str(source))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
        with pytest.raises(SealBrokenError) as broken:
            store_copy(store, content, str(source))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert str(store) in str(broken.value.filename)
    assert entries(store) == []
    assert said(store_copy(store, content, str(source))) == "good\n"


HOLD = """
import sys
from pathlib import Path
from flycore.sandbox.content_store import store_copy
sys.stdin.readline()
print(store_copy(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
"""


def test_processes_that_make_the_same_copy_at_once(source: Path, store: Path) -> None:
    for number in range(200):
        (source / f"file{number}").write_text(str(number))
    content = tree_digest(str(source))
    argv = [sys.executable, "-c", HOLD, str(store), content, str(source)]
    others = [
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for other in others:
        assert other.stdin is not None
        other.stdin.write("go\n")
        other.stdin.flush()
    assert {other.communicate()[0].strip() for other in others} == {str(store / content)}
    assert entries(store) == [content]
    assert copy_digest(str(store / content)) == content


def test_threads_that_find_a_touched_copy_at_once(source: Path, store: Path) -> None:
    content = tree_digest(str(source))
    with ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            _write(store_copy(store, content, str(source)))
            copies = [pool.submit(store_copy, store, content, str(source)) for _ in range(4)]
            assert {said(copy.result()) for copy in copies} == {"good\n"}
    assert entries(store) == [content]


def test_a_copy_that_a_killed_process_left_half_made_is_never_used(source: Path, store: Path) -> None:
    content = tree_digest(str(source))
    store_copy(store, content, str(source)).rename(store / ".new.0123456789abcdef")
    assert said(store_copy(store, content, str(source))) == "good\n"
    assert prune(store, time.time() + 2 * DAY) == 1
    assert entries(store) == [content]


def test_copies_nobody_used_for_a_month_go(source: Path, store: Path) -> None:
    used = store_copy(store, tree_digest(str(source)), str(source))
    (source / "run").write_text("#!/bin/sh\n")
    unused = store_copy(store, tree_digest(str(source)), str(source))
    now = time.time()
    os.utime(unused, (now, now - KEPT_SECONDS - 60))
    os.utime(used, (now, now - KEPT_SECONDS + 60))
    (store / "somebody's").mkdir()
    os.utime(store / "somebody's", (0, 0))
    assert prune(store, now) == 1
    assert entries(store) == sorted([used.name, "somebody's"])


def test_a_copy_that_is_used_stays(source: Path, store: Path) -> None:
    content = tree_digest(str(source))
    copy = store_copy(store, content, str(source))
    os.utime(copy, (0, 0))
    store_copy(store, content, str(source))
    assert prune(store, time.time()) == 0
    assert said(copy) == "good\n"


def test_no_store_is_made_by_looking_for_old_copies(store: Path) -> None:
    assert prune(store, time.time()) == 0
    assert not store.exists()
