"""The arguments of bwrap, as text."""

from __future__ import annotations

from pathlib import Path

from flycore.sandbox.bubblewrap import Descriptors, arguments
from flycore.sandbox.confinement import Confinement, Mount, SystemLayout, read_system_layout

LAYOUT = SystemLayout(
    links=(("/bin", "usr/bin"),), folders=("/usr", "/etc/ld.so.cache"), network=("/etc/hosts",)
)
MOUNTS = (
    Mount("/p/out", writable=True),
    Mount("/p/out/tools"),
    Mount("/p"),
    Mount("/opt/python"),
)
DESCRIPTORS = Descriptors(
    mounts={"/p": 7, "/p/out": 8, "/p/out/tools": 9, "/opt/python": 10}, seccomp=11, status=12
)


def lines(*, network: bool = False, bind_by_descriptor: bool = True) -> list[str]:
    """The arguments with one option and its values in each line."""
    confinement = Confinement(mounts=MOUNTS, cwd="/p", network=network)
    found: list[str] = []
    given = arguments(
        confinement, LAYOUT, {"B": "2", "A": "1 x"}, DESCRIPTORS, bind_by_descriptor=bind_by_descriptor
    )
    for word in given:
        if word.startswith("--"):
            found.append(word)
        else:
            found[-1] += f" {word}"
    return found


def test_the_whole_list() -> None:
    assert lines() == [
        "--unshare-user",
        "--disable-userns",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--unshare-net",
        "--die-with-parent",
        "--new-session",
        "--cap-drop ALL",
        "--clearenv",
        "--setenv A 1 x",
        "--setenv B 2",
        "--ro-bind /usr /usr",
        "--ro-bind /etc/ld.so.cache /etc/ld.so.cache",
        "--symlink usr/bin /bin",
        "--proc /proc",
        "--dev /dev",
        "--size 268435456",
        "--tmpfs /dev/shm",
        "--size 268435456",
        "--tmpfs /tmp",
        "--ro-bind-fd 7 /p",
        "--ro-bind-fd 10 /opt/python",
        "--bind-fd 8 /p/out",
        "--ro-bind-fd 9 /p/out/tools",
        "--chdir /p",
        "--remount-ro /dev",
        "--remount-ro /",
        "--seccomp 11",
        "--json-status-fd 12",
    ]


def test_folders_that_are_shown_empty_come_before_the_mounts_in_them() -> None:
    confinement = Confinement(mounts=MOUNTS, cwd="/p", shown_empty=("/p", "/q"))
    words = arguments(confinement, LAYOUT, {}, DESCRIPTORS)
    start = words.index("--perms")
    assert words[start : start + 8] == ("--perms", "0555", "--dir", "/p", "--perms", "0555", "--dir", "/q")
    assert words.index("--tmpfs") < start < words.index("--ro-bind-fd")


def test_network_keeps_the_namespace_and_brings_the_resolver() -> None:
    alone, with_network = lines(), lines(network=True)
    assert set(alone) - set(with_network) == {"--unshare-net"}
    assert set(with_network) - set(alone) == {"--ro-bind /etc/hosts /etc/hosts"}


def test_an_older_bwrap_mounts_the_path_of_the_descriptor() -> None:
    older = lines(bind_by_descriptor=False)
    assert "--bind /proc/self/fd/8 /p/out" in older
    assert "--ro-bind /proc/self/fd/9 /p/out/tools" in older
    assert not any("-fd " in line for line in older if "bind" in line)


def test_of_two_mounts_of_one_path_the_writable_one_counts() -> None:
    twice = Confinement(mounts=(Mount("/a", writable=True), Mount("/a")), cwd="/")
    assert twice.ordered_mounts() == (Mount("/a", writable=True),)


def test_the_layout_is_that_of_the_root_folder(tmp_path: Path) -> None:
    for folder in ("usr/bin", "lib64", "etc/ssl/certs", "etc/ssl/private", "etc/python3.11", "nix/store"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "etc/ld.so.cache").write_text("")
    found = read_system_layout(str(tmp_path))
    assert found.links == (("/bin", "usr/bin"),)
    assert found.folders == ("/usr", "/lib64", "/nix/store", "/etc/ld.so.cache", "/etc/python3.11")
    assert found.network == ("/etc/ssl/certs",)
