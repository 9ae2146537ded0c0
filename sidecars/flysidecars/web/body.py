"""Bodies of answers: decompressed in bounded pieces, cut at a limit, and decoded as text."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterable, Iterator

PIECE_BYTES = 64 * 1024
_EXTRA_RAW_BYTES = 1024 * 1024
"""Compressed bytes that are read beyond the limit. Some gzip data decompresses to nothing, without end."""
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
"""Charset names of pages that stand for a larger charset (WHATWG Encoding Standard)."""
_KNOWN = re.compile(
    r"utf-8|utf-16-[lb]e|gb18030|big5(?:hkscs)?|shift_jis|cp932|cp949|euc_(?:jp|kr)|iso2022_jp|koi8-[ru]"
    r"|iso8859-\d+|cp125\d|cp866|mac-(?:roman|cyrillic)"
)
"""The charsets that are decoded. Python's other codecs are not for text, or are slow on hostile bytes."""


class BrokenBody(Exception):
    """The body does not match its headers."""


def decode(raw: Iterator[bytes], encoding: str, limit: int) -> Iterator[bytes]:
    """The decompressed bytes in pieces; at most `limit` + 1 of them. Raises `BrokenBody`."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        pieces = _split(raw)
    elif encoding in ("gzip", "x-gzip"):
        pieces = _gunzip(raw, limit + _EXTRA_RAW_BYTES)
    else:
        raise BrokenBody("it is compressed in a way that was not requested")
    sent = 0
    for piece in pieces:
        # One byte more than the limit tells the caller that the body is longer.
        yield piece[: limit + 1 - sent]
        sent += len(piece)
        if sent > limit:
            return


def _split(raw: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in raw:
        for start in range(0, len(chunk), PIECE_BYTES):
            yield chunk[start : start + PIECE_BYTES]


def _gunzip(raw: Iterable[bytes], most: int) -> Iterator[bytes]:
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 16)
    read = 0
    try:
        for chunk in raw:
            read += len(chunk)
            if read > most:
                raise BrokenBody("its compressed bytes contain next to nothing")
            rest = chunk
            while rest:
                if unpack.eof:  # a gzip file may have several members, one after the other
                    unpack = zlib.decompressobj(zlib.MAX_WBITS | 16)
                # Bounded output: a small chunk may decompress to a thousand times its size.
                if piece := unpack.decompress(rest, PIECE_BYTES):
                    yield piece
                rest = unpack.unconsumed_tail or unpack.unused_data
            while piece := b"" if unpack.eof else unpack.decompress(b"", PIECE_BYTES):
                yield piece
    except zlib.error as broken:
        raise BrokenBody("it is not gzip, as its header says") from broken
    if read and not unpack.eof:
        raise BrokenBody("its end is missing")


def is_text(content_type: str, head: bytes) -> bool:
    """Whether the body is text, by its type; by its first bytes if the type is missing or says nothing."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in ("", "application/octet-stream", "unknown/unknown"):
        return b"\0" not in head[:1024] and not _looks_packed(head)
    return _TEXT.fullmatch(kind) is not None


def _looks_packed(head: bytes) -> bool:
    return head.startswith((b"\x89PNG", b"\xff\xd8\xff", b"%PDF", b"PK\x03\x04", b"\x1f\x8b", b"GIF8"))


def text_of(data: bytes, content_type: str) -> str:
    """The body as text. Bytes that do not fit its charset, and NUL, become U+FFFD."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return _decode(data[len(mark) :], name)
    named = _CHARSET.search(content_type)
    inside = None if named else (_META.search(data[:1024]) or _XML.search(data[:1024]))
    name = named[1] if named else inside[1].decode("ascii") if inside else "utf-8"
    # Bytes in which an ASCII <meta> was found cannot be UTF-16.
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
