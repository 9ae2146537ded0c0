"""Opens the picture or recording of a call below the project, and checks its type and size."""

from __future__ import annotations

import os

from flysidecars.sdk import Call, ToolFailed
from flysidecars.sdk.paths import open_project_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from types import TracebackType

MAX_PICTURE_BYTES = 20 * 1024 * 1024
MAX_RECORDING_BYTES = 200 * 1024 * 1024
MAX_SENT_BYTES = 25 * 1024 * 1024
"""Bytes of a recording for a provider: it is sent in one request."""
MAX_PIXELS = 100_000_000
COMMON_PICTURES = ("image/png", "image/jpeg", "image/webp", "image/gif")
PICTURES = (*COMMON_PICTURES, "image/tiff", "image/bmp", "image/x-portable-anymap")
RECORDINGS = ("audio/wav", "audio/mpeg", "audio/ogg", "audio/flac", "audio/mp4", "audio/webm")
_HEAD = 16
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP", "PPM")


def kind_of(head: bytes) -> str | None:
    """The MIME type by the first 16 bytes of a file; None if it is neither a picture nor a recording."""
    starts = (
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"II*\0", "image/tiff"),
        (b"MM\0*", "image/tiff"),
        (b"BM", "image/bmp"),
        (b"ID3", "audio/mpeg"),
        (b"OggS", "audio/ogg"),
        (b"fLaC", "audio/flac"),
        (b"\x1a\x45\xdf\xa3", "audio/webm"),
    )
    if head[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(head[8:12])
    if head[4:8] == b"ftyp":
        return "audio/mp4"
    if head[:1] == b"P" and head[1:2] in b"123456" and head[2:3].isspace():
        return "image/x-portable-anymap"
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2:
        return "audio/mpeg"
    return next((kind for start, kind in starts if head.startswith(start)), None)


class InputFile:
    """A context manager that opens the file at `path` of the input.

    Entering it raises what `open_project_file` raises, and `ToolFailed`: `wrong-type` for a type that is not
    in `kinds`, `too-big` for more than `max_bytes`.
    """

    def __init__(self, call: Call, kinds: Collection[str], max_bytes: int) -> None:
        self._call = call
        self._kinds = kinds
        self._max_bytes = max_bytes

    def __enter__(self) -> InputFile:
        path = self._call.text("path")
        self.descriptor, status = open_project_file(self._call, path)
        self.size = status.st_size
        self.name = os.path.basename(path)
        try:
            self.kind = self._check_kind(path)
        except ToolFailed:
            os.close(self.descriptor)
            raise
        return self

    def _check_kind(self, path: str) -> str:
        kind = kind_of(os.pread(self.descriptor, _HEAD, 0))
        if kind is None or kind not in self._kinds:
            names = ", ".join(sorted(name.partition("/")[2] for name in self._kinds))
            raise ToolFailed("wrong-type", f"{path} is none of: {names}", path=path)
        require_size(self.size, self._max_bytes, path)
        return kind

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.descriptor)

    def data(self, max_bytes: int) -> bytes:
        """The file's bytes. Raises `ToolFailed` (`too-big`) for more than `max_bytes`."""
        require_size(self.size, max_bytes, self.name)
        with open(os.dup(self.descriptor), "rb") as file:
            file.seek(0)
            data = file.read(max_bytes + 1)
        require_size(len(data), max_bytes, self.name)
        return data

    def rewind(self) -> int:
        """The descriptor, positioned at the beginning of the file, for a program's stdin."""
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        return self.descriptor


def require_size(size: int, max_bytes: int, name: str) -> None:
    """Raise `ToolFailed` (`too-big`) for more than `max_bytes`."""
    if size > max_bytes:
        raise ToolFailed(
            "too-big", f"{name} has {size} bytes; at most {max_bytes} are read", bytes=size, limit=max_bytes
        )


def require_pixels(picture_file: InputFile) -> None:
    """Raise `ToolFailed` if the picture's header cannot be read (`broken`) or names more than `MAX_PIXELS`
    (`too-big`)."""
    import warnings

    from PIL import Image, UnidentifiedImageError

    # A small file can hold a picture that fills the memory. Our limit replaces Pillow's own, whose warnings
    # and errors begin at other sizes; only the header is read here.
    Image.MAX_IMAGE_PIXELS = None
    try:
        with warnings.catch_warnings(), open(os.dup(picture_file.descriptor), "rb") as file:
            warnings.simplefilter("ignore")
            file.seek(0)
            with Image.open(file, formats=_FORMATS) as picture:
                width, height = picture.size
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as broken:
        raise ToolFailed("broken", f"{picture_file.name} is no picture that can be read") from broken
    if width * height > MAX_PIXELS:
        raise ToolFailed(
            "too-big", f"{picture_file.name} has {width} × {height} pixels; at most {MAX_PIXELS} are read"
        )


_JPEG = "image/jpeg"


def picture_only(picture_file: InputFile, data: bytes) -> tuple[str, bytes]:
    """The MIME type and the bytes of the decoded picture, written anew: a JPEG as JPEG, any other as PNG,
    of an animation the first frame. Raises `ToolFailed`: `broken`, `too-big`."""
    from io import BytesIO

    from PIL import Image

    require_pixels(picture_file)
    written = BytesIO()
    try:
        with Image.open(BytesIO(data), formats=_FORMATS) as picture:
            picture.load()
            picture.info = {}
            if picture_file.kind == _JPEG:
                picture.save(written, "JPEG", quality="keep")
                return _JPEG, written.getvalue()
            mode = picture.mode if picture.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16") else "RGBA"
            shown = picture if mode == picture.mode and mode != "P" else picture.convert("RGBA")
            # The fastest level: the picture is sent once, and never kept.
            shown.save(written, "PNG", compress_level=1)
    except (OSError, ValueError, SyntaxError, EOFError) as broken:
        raise ToolFailed("broken", f"{picture_file.name} is no picture that can be decoded") from broken
    return "image/png", written.getvalue()
