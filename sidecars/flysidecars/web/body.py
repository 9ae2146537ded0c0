"""Bodies: unpacked in bounded pieces, cut at a limit, read as text."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterable, Iterator

PIECE_BYTES = 64 * 1024
_RAW_SPARE = 1024 * 1024
"""Packed bytes beyond the limit that are read although nothing has come out of them."""
_TEXT = re.compile(
    r"text/.*|application/(?:.+\+)?(?:json|xml|yaml)|application/(?:javascript|ecmascript|ld\+json|toml|csv"
    r"|x-ndjson|x-yaml|x-javascript|x-www-form-urlencoded|graphql|sql|rtf)|image/svg\+xml|message/.*"
)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:+-]{1,40})", re.IGNORECASE)
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"^<\?xml[^>]{0,100}?encoding\s*=\s*[\"']([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_WIDER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "utf-16": "utf-16-le",
}
"""Names that pages use for more than they say (WHATWG Encoding)."""
_KNOWN = re.compile(
    r"utf-8|utf-16-[lb]e|gb18030|big5(?:hkscs)?|shift_jis|cp932|cp949|euc_(?:jp|kr)|iso2022_jp|koi8-[ru]"
    r"|iso8859-\d+|cp125\d|cp866|mac-(?:roman|cyrillic)"
)
"""Charsets of text. Python's other codecs are none, or take long over hostile bytes."""


class BrokenBody(Exception):
    """A body that is not what its headers say."""


def decode(raw: Iterator[bytes], encoding: str, limit: int) -> Iterator[bytes]:
    """The body's own bytes, in pieces; ends once there are more than `limit`. Raises `Broken`."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        pieces = _cut(raw)
    elif encoding in ("gzip", "x-gzip"):
        pieces = _unzip(raw, limit + _RAW_SPARE)
    else:
        raise BrokenBody("packed in a way that was not asked for")
    sent = 0
    for piece in pieces:
        yield piece[: limit + 1 - sent]
        sent += len(piece)
        if sent > limit:
            return


def _cut(raw: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in raw:
        for start in range(0, len(chunk), PIECE_BYTES):
            yield chunk[start : start + PIECE_BYTES]


def _unzip(raw: Iterable[bytes], most: int) -> Iterator[bytes]:
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 16)
    read = 0
    try:
        for chunk in raw:
            read += len(chunk)
            if read > most:
                raise BrokenBody("packed bytes that nothing comes out of")
            rest = chunk
            while rest:
                if unpack.eof:
                    unpack = zlib.decompressobj(zlib.MAX_WBITS | 16)
                if piece := unpack.decompress(rest, PIECE_BYTES):
                    yield piece
                rest = unpack.unconsumed_tail or unpack.unused_data
            while piece := b"" if unpack.eof else unpack.decompress(b"", PIECE_BYTES):
                yield piece
    except zlib.error as broken:
        raise BrokenBody("not gzip, as it says") from broken
    if read and not unpack.eof:
        raise BrokenBody("its end is missing")


def is_text(content_type: str, head: bytes) -> bool:
    """Whether the body is meant to be read; by its first bytes where the type does not say."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in ("", "application/octet-stream", "unknown/unknown"):
        return b"\0" not in head[:1024] and not _looks_packed(head)
    return _TEXT.fullmatch(kind) is not None


def _looks_packed(head: bytes) -> bool:
    return head.startswith((b"\x89PNG", b"\xff\xd8\xff", b"%PDF", b"PK\x03\x04", b"\x1f\x8b", b"GIF8"))


def text_of(data: bytes, content_type: str) -> str:
    """The body as text; what does not fit its charset, and NUL, becomes U+FFFD."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return _decode(data[len(mark) :], name)
    said = _CHARSET.search(content_type)
    inside = None if said else (_META.search(data[:1024]) or _XML.search(data[:1024]))
    name = said[1] if said else inside[1].decode("ascii") if inside else "utf-8"
    found = "utf-8" if inside and name.lower().startswith("utf-16") else _charset(name)
    return _decode(data, found)


def _decode(data: bytes, charset: str) -> str:
    return data.decode(charset, "replace").replace("\0", "\ufffd")


def _charset(name: str) -> str:
    try:
        codec = codecs.lookup(name).name
    except LookupError:
        return "utf-8"
    codec = _WIDER.get(codec, codec)
    return codec if _KNOWN.fullmatch(codec) else "utf-8"
