"""Pictures for a card: the screen where a pointer would act, or the window that keys would go to.

They are taken when a card is made, for the person's eyes alone: pixels change by themselves, so they take
no part in what is approved, and they leave the kernel's process neither by the socket nor into a file.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from flycore.model.approval import ApprovalRequest, Preview
from flycore.model.base import Value
from flycore.model.json import JsonObject
from flycore.model.picture import Picture

POINTER_TOOL = "computer.mouse"


class Screenshot(Value, frozen=True, kw_only=True):
    """A part of the screen; `cross` is the pixel of the picture that is meant."""

    picture: Picture
    cross: tuple[int, int] | None = None


class DesktopUnreadable(Exception):
    """The display cannot be asked; the text says why and what to install."""


class ScreenCamera(Protocol):
    """Takes pictures of the display. Raises DesktopUnreadable."""

    async def shot_at(self, x: int, y: int) -> Screenshot:
        """The screen round a point."""
        ...

    async def shot_of(self, window_id: int) -> Screenshot:
        """A window as it is on the screen, with whatever covers it."""
        ...


def point_of(input: JsonObject, x: str = "x", y: str = "y") -> tuple[int, int] | None:
    """The point of the screen that the input names under these keys."""
    across, down = input.get(x), input.get(y)
    return (across, down) if type(across) is int and type(down) is int else None


async def with_screenshots(camera: ScreenCamera, request: ApprovalRequest) -> ApprovalRequest:
    """The request with its pictures; where none can be taken, with why not."""
    subject = request.subject
    if subject.preview is None or subject.preview.of_page or subject.preview.file:
        return request
    if subject.preview.unchecked:
        return msgspec.structs.replace(request, no_crop="Wayland lets nobody look at windows")
    try:
        shots = await _screenshots(camera, request.tool, subject.input, subject.preview)
    except DesktopUnreadable as error:
        return msgspec.structs.replace(request, no_crop=str(error))
    first, *rest = shots
    request = msgspec.structs.replace(request, crop=first.picture, cross=first.cross)
    if rest:
        request = msgspec.structs.replace(request, crop_to=rest[0].picture, cross_to=rest[0].cross)
    return request


async def _screenshots(
    camera: ScreenCamera, tool: str, input: JsonObject, preview: Preview
) -> list[Screenshot]:
    """Round the point, for a drag round both; without one, of the window."""
    start = point_of(input) if tool == POINTER_TOOL else None
    if start is None:
        return [await camera.shot_of(int(preview.window_id))]
    end = point_of(input, "toX", "toY")
    return [await camera.shot_at(*point) for point in (start, end) if point is not None]
