"""`file.hash` as a process: right digests, and no way out of the project."""

from __future__ import annotations

import hashlib
import os
import resource
import socket
import subprocess
from pathlib import Path

import pytest


@pytest.mark.parametrize("algorithm", ["sha256", "sha512", "sha1", "md5", "blake2b"])
def test_digest_and_size(starter, algorithm: str) -> None:
    data = os.urandom(3 * 1024 * 1024 + 17)
    (starter.project / "data.bin").write_bytes(data)
    done = starter.call("utility.local", "file.hash", {"path": "data.bin", "algorithm": algorithm})
    assert done.code == 0
    assert done.answer == {
        "ok": True,
        "path": "data.bin",
        "algorithm": algorithm,
        "digest": hashlib.new(algorithm, data).hexdigest(),
        "bytes": len(data),
    }


def test_sha256_is_the_default_and_absolute_paths_inside_work(starter) -> None:
    path = starter.project / "a" / "é 🙂.txt"
    path.parent.mkdir()
    path.write_bytes(b"")
    done = starter.call("utility.local", "file.hash", {"path": str(path)})
    assert done.answer["digest"] == hashlib.sha256(b"").hexdigest()
    assert done.answer["bytes"] == 0


def test_large_files_report_progress(starter) -> None:
    size = 130 * 1024 * 1024
    with (starter.project / "large").open("wb") as file:
        file.truncate(size)
    done = starter.call("utility.local", "file.hash", {"path": "large"})
    assert done.answer["bytes"] == size
    assert [event["progress"] for event in done.events] == [64 << 20, 128 << 20]
    assert {event["total"] for event in done.events} == {size}


@pytest.mark.suite
def test_a_huge_file_takes_no_more_memory(starter) -> None:
    """1 GiB at full size, in a process that may hold 32 MiB."""
    size = (1 << 30) if os.environ.get("FLYTUI_SUITES") == "full" else (192 << 20)
    with (starter.project / "huge").open("wb") as file:
        file.truncate(size)

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (32 << 20, 32 << 20))

    request = starter.request("file.hash", {"path": "huge", "algorithm": "blake2b"})
    done = subprocess.run(
        starter.argv("utility.local"),
        input=request,
        capture_output=True,
        env=starter.env,
        preexec_fn=small,
        check=True,
    )
    answered = starter.read(done.stdout)
    assert answered.answer["bytes"] == size
    assert [event["progress"] for event in answered.events] == list(range(64 << 20, size + 1, 64 << 20))


def test_a_link_that_stays_inside_is_followed(starter) -> None:
    (starter.project / "real").write_bytes(b"x")
    (starter.project / "link").symlink_to("real")
    assert starter.call("utility.local", "file.hash", {"path": "link"}).answer["ok"] is True


def _outside(project: Path) -> Path:
    outside = project.parent / "secret"
    outside.write_bytes(b"secret")
    return outside


def _plant(project: Path, kind: str) -> str:
    """Make one thing that must not be read and return the path to ask for."""
    outside = _outside(project)
    thing = project / "thing"
    if kind == "dot-dot":
        return "../secret"
    if kind == "absolute":
        return str(outside)
    if kind == "sibling-prefix":
        (project.parent / "project-2").mkdir()
        (project.parent / "project-2" / "f").write_bytes(b"x")
        return str(project) + "-2/f"
    if kind == "absolute-dot-dot":
        return f"{project}/../secret"
    if kind == "link":
        thing.symlink_to("../secret")
    elif kind == "absolute-link":
        thing.symlink_to(outside)
    elif kind == "folder-link":
        thing.symlink_to("..")
        return "thing/secret"
    elif kind == "fifo":
        os.mkfifo(thing)
    elif kind == "folder":
        thing.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(os.path.relpath(thing))
    return {"device": "/dev/zero", "missing": "nowhere", "empty": "", "nul": "a\0b"}.get(kind, "thing")


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("dot-dot", "outside-project"),
        ("absolute", "outside-project"),
        ("absolute-dot-dot", "outside-project"),
        ("sibling-prefix", "outside-project"),
        ("link", "outside-project"),
        ("absolute-link", "outside-project"),
        ("folder-link", "outside-project"),
        ("device", "outside-project"),
        ("fifo", "not-a-file"),
        ("folder", "not-a-file"),
        ("socket", "not-readable"),
        ("missing", "not-found"),
        ("empty", "not-found"),
        ("nul", "not-found"),
    ],
)
def test_refusals(starter, monkeypatch: pytest.MonkeyPatch, kind: str, code: str) -> None:
    monkeypatch.chdir(starter.project)
    done = starter.call("utility.local", "file.hash", {"path": _plant(starter.project, kind)})
    assert (done.code, done.answer["ok"], done.answer["code"]) == (1, False, code)
    assert done.answer["error"]
    assert b"secret" not in done.out.replace(b"/secret", b"").replace(b"../secret", b"")


@pytest.mark.root
def test_a_device_below_the_project_is_not_read(starter) -> None:
    try:
        os.mknod(starter.project / "zero", 0o020600, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("NOT TESTED, no device can be made here")
    done = starter.call("utility.local", "file.hash", {"path": "zero"})
    assert done.answer["code"] in ("not-a-file", "not-readable")


@pytest.mark.parametrize("input", [{}, {"path": 7}, {"path": "a", "algorithm": "crc32"}, {"path": None}])
def test_bad_input_names_the_field(starter, input: dict[str, object]) -> None:
    done = starter.call("utility.local", "file.hash", input)
    assert done.answer["code"] == "invalid-input"
    assert done.answer["field"] in ("path", "algorithm")
