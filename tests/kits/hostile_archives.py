"""The archives of suite S9: each is refused, and nothing of it stays."""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable

from flysafe.archives import Format


def zipped(*entries: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", method) as archive:
        for name, data in entries:
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=method)
    return held.getvalue()


def tarred(*members: tuple[tarfile.TarInfo, bytes], kind: str = "w") -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode=kind) as archive:  # type: ignore[call-overload]  # mode is a str here
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return held.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def link_then_write() -> bytes:
    return tarred((member("way", tarfile.SYMTYPE, "../../out"), b""), (member("way/new.txt"), b"x"))


def zip_link() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        info = zipfile.ZipInfo("way")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "../../out")
        archive.writestr("way/new.txt", "x")
    return held.getvalue()


def nested_links() -> bytes:
    """The path that a resolver follows outgrows what a system resolves: the last link is taken as it is."""
    name, members = "d" * 200, []
    path = ""
    for letter in "abcdefghijklmnop":
        members.append((member(f"{path}{name}", tarfile.DIRTYPE), b""))
        members.append((member(f"{path}{letter}", tarfile.SYMTYPE, name), b""))
        path += f"{letter}/"
    members.append((member(f"{path}{'l' * 254}", tarfile.SYMTYPE, "../" * 16), b""))
    return tarred(*members)


def overlapping() -> bytes:
    """Two entries of the directory that point at the same bytes."""
    data = bytearray(zipped(("a", b"a" * 1_000), ("b", b"b" * 1_000)))
    at = data.find(b"PK\1\2", data.find(b"PK\1\2") + 1)
    data[at + 42 : at + 46] = struct.pack("<I", 0)
    data[at + 46 : at + 47] = b"a"
    return bytes(data)


def encrypted() -> bytes:
    data = bytearray(zipped(("secret", b"x" * 50)))
    for mark, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = data.find(mark) + offset
        data[at] |= 1
    return bytes(data)


def bomb_gz() -> bytes:
    held = io.BytesIO()
    with gzip.GzipFile(fileobj=held, mode="wb", compresslevel=9) as out:
        info = member("big")
        info.size = 512 << 20
        out.write(info.tobuf())
        for _ in range(512):
            out.write(bytes(1 << 20))
    return held.getvalue()


def bomb_zip() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("big", "w") as out:
        for _ in range(300):
            out.write(bytes(1 << 20))
    return held.getvalue()


def header_bomb() -> bytes:
    """A header of attributes that claims to be 200 MB."""
    held = io.BytesIO()
    info = member("pax", tarfile.XHDTYPE)
    info.size = 200 << 20
    with gzip.GzipFile(fileobj=held, mode="wb", compresslevel=1) as out:
        out.write(info.tobuf(tarfile.USTAR_FORMAT))
        for _ in range(200):
            out.write(bytes(1 << 20))
    return held.getvalue()


HOSTILE: dict[str, tuple[Callable[[], bytes], Format, str]] = {
    "dotdot-tar": (lambda: tarred((member("../out/new.txt"), b"x")), Format.TAR, "unsafe-entry"),
    "dotdot-zip-slip": (lambda: zipped(("a/../../out/new.txt", b"x")), Format.ZIP, "unsafe-entry"),
    "absolute": (lambda: tarred((member("/tmp/new.txt"), b"x")), Format.TAR, "unsafe-entry"),
    "absolute-zip": (lambda: zipped(("/new.txt", b"x")), Format.ZIP, "unsafe-entry"),
    "drive-letter": (lambda: zipped(("C:/new.txt", b"x")), Format.ZIP, "unsafe-entry"),
    "backslash": (lambda: zipped(("..\\out\\new.txt", b"x")), Format.ZIP, "unsafe-entry"),
    "symlink-then-write": (link_then_write, Format.TAR, "unsafe-entry"),
    "zip-symlink": (zip_link, Format.ZIP, "unsafe-entry"),
    "hard-link": (
        lambda: tarred((member("way", tarfile.LNKTYPE, "../out/kept.txt"), b"")),
        Format.TAR,
        "unsafe-entry",
    ),
    "device": (lambda: tarred((member("dev", tarfile.CHRTYPE), b"")), Format.TAR, "unsafe-entry"),
    "fifo": (lambda: tarred((member("pipe", tarfile.FIFOTYPE), b"")), Format.TAR, "unsafe-entry"),
    "case": (lambda: zipped(("Readme", b"1"), ("README", b"2")), Format.ZIP, "unsafe-entry"),
    "folder-case": (lambda: zipped(("Lib/a", b"1"), ("lib/b", b"2")), Format.ZIP, "unsafe-entry"),
    "file-then-folder": (
        lambda: tarred((member("a"), b"1"), (member("a/b"), b"2")),
        Format.TAR,
        "unsafe-entry",
    ),
    "folder-then-file": (
        lambda: tarred((member("a/b"), b"1"), (member("a"), b"2")),
        Format.TAR,
        "unsafe-entry",
    ),
    "twice": (lambda: tarred((member("a"), b"1"), (member("a"), b"2")), Format.TAR, "unsafe-entry"),
    "control": (lambda: tarred((member("a\x1b[2Jb"), b"x")), Format.TAR, "unsafe-entry"),
    "bidi": (lambda: zipped(("a\u202etxt.exe", b"x")), Format.ZIP, "unsafe-entry"),
    "no-text": (lambda: tarred((member("a\udcffb"), b"x")), Format.TAR, "unsafe-entry"),
    "depth-40": (lambda: zipped(("/".join("d" * 40) + "/f", b"x")), Format.ZIP, "unsafe-entry"),
    "20000-tar": (lambda: tarred(*((member(f"{i}"), b"") for i in range(20_000))), Format.TAR, "too-many"),
    "20000-zip": (lambda: zipped(*((f"{i}", b"") for i in range(20_000))), Format.ZIP, "too-many"),
    "gz-bomb": (bomb_gz, Format.TAR_GZ, "too-big"),
    "zip-bomb": (bomb_zip, Format.ZIP, "too-big"),
    "header-bomb": (header_bomb, Format.TAR_GZ, "too-big"),
    "nested-links": (nested_links, Format.TAR, "unsafe-entry"),
    "overlapping": (overlapping, Format.ZIP, "unsafe-entry"),
    "encrypted": (encrypted, Format.ZIP, "encrypted"),
    "method": (lambda: zipped(("a", b"x" * 100), method=zipfile.ZIP_BZIP2), Format.ZIP, "unsupported"),
    "truncated-zip": (lambda: zipped(("a", b"x" * 5_000))[:-30], Format.ZIP, "broken"),
    "truncated-gz": (
        lambda: gzip.compress(tarred((member("a"), os.urandom(9_000))))[:-3_000],
        Format.TAR_GZ,
        "broken",
    ),
    "truncated-tar": (lambda: tarred((member("a"), b"x" * 90_000))[:40_000], Format.TAR, "broken"),
    "no-archive": (lambda: b"not an archive" * 100, Format.TAR, "broken"),
    "empty-zip-bytes": (lambda: b"", Format.ZIP, "broken"),
}
