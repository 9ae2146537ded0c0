"""What a confined program may reach, as a value that every backend of the sandbox starts from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import IntEnum

import msgspec

DEFAULT_TMP_BYTES = 256 * 1024 * 1024
"""How large /tmp and /dev/shm of a program may grow, each. They lie in memory."""
_LINKED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ALWAYS = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "localtime",
    "os-release",
    "passwd",  # names of users; the hashes are in another file
    "group",
    "fonts",
    "mime.types",
    "gitconfig",
    "ssl/openssl.cnf",
)
"""What ordinary programs read in /etc. Under Landlock a file that is there and cannot be read ends some of
them (node without openssl.cnf), where a missing one is nothing to them."""
_ALWAYS_BEGINNING = "python3"
"""Debian keeps a part of its Python in /etc/python3*."""
_FOR_NETWORK = (
    "resolv.conf",
    "hosts",
    "host.conf",
    "nsswitch.conf",
    "gai.conf",
    "services",
    "protocols",
    # Not all of /etc/ssl and /etc/pki: they hold private keys, too.
    "ssl/certs",
    "pki/tls/certs",
    "pki/ca-trust",
    "ca-certificates",
    "crypto-policies",
)
_STORES = ("/nix/store", "/gnu/store")


class IfMissing(IntEnum):
    """What happens where the path of a mount does not exist."""

    FAIL = 0
    LEAVE_OUT = 1
    MAKE_FOLDER = 2


class Mount(msgspec.Struct, frozen=True, order=True):
    """One file or folder of this machine that the program sees, at its own path unless `source` names
    another."""

    path: str
    writable: bool = False
    anchor: str = ""
    """The folder below which the path must stay when it is opened, links included. Empty for a path that
    flytui itself has worked out, and for one that a person has trusted as it stands."""
    source: str = ""
    """What is seen at `path`, such as the sealed copy of a program; empty for `path` itself. Only bubblewrap
    can do that."""
    if_missing: IfMissing = IfMissing.FAIL
    within: str = ""
    """A folder below `anchor` that the path must not leave either, links included; empty where it may. What
    leads to this folder may hold links that stay below `anchor`."""
    follow: bool = True
    """Whether links below `anchor` are followed."""
    copied: bool = False
    """Whether a copy of the file as it is at the start is seen, and not the file itself. Only bubblewrap can
    do that."""


class SystemLayout(msgspec.Struct, frozen=True):
    """How the system's own folders lie: `links` are entries of the root that are links, with their targets;
    `folders` are read by every program, `network` is what a program with network reads besides."""

    links: tuple[tuple[str, str], ...]
    folders: tuple[str, ...]
    network: tuple[str, ...]


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one program. All paths are absolute.

    Of two mounts one below the other, the deeper one counts for what is below it: so a read-only mount
    inside a writable one stays read-only.
    """

    mounts: tuple[Mount, ...]
    cwd: str
    shown_empty: tuple[str, ...] = ()
    """Folders that are there and empty, but for the mounts in them. Landlock shows them as they are, and
    refuses to list them."""
    network: bool = False
    unix_sockets: bool = False
    tmp_bytes: int = DEFAULT_TMP_BYTES
    """How large each file system may grow that the program has in memory."""

    def ordered_mounts(self) -> tuple[Mount, ...]:
        """Return the mounts with every folder before what lies in it, and for one path the writable one."""
        by_path: dict[str, Mount] = {}
        for mount in sorted(self.mounts):
            by_path[mount.path] = mount  # of two, the writable one sorts last
        return tuple(by_path[path] for path in sorted(by_path, key=lambda path: (path.count("/"), path)))


def read_system_layout(root: str = "/") -> SystemLayout:
    """Look at this machine's root folder. What is missing is left out."""

    def existing(*paths: str) -> Iterator[str]:
        return (path for path in paths if os.path.exists(os.path.join(root, path.lstrip("/"))))

    links, folders = [], ["/usr"]
    for name in _LINKED:
        path = os.path.join(root, name)
        if os.path.islink(path):
            links.append((f"/{name}", os.readlink(path)))
        elif os.path.isdir(path):
            folders.append(f"/{name}")
    try:
        in_etc = sorted(os.listdir(os.path.join(root, "etc")))
    except OSError:
        in_etc = []
    names = (*_ALWAYS, *(name for name in in_etc if name.startswith(_ALWAYS_BEGINNING)))
    return SystemLayout(
        links=tuple(links),
        folders=(*folders, *existing(*_STORES), *existing(*(f"/etc/{name}" for name in names))),
        network=tuple(existing(*(f"/etc/{name}" for name in _FOR_NETWORK))),
    )
