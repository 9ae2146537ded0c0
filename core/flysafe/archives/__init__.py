"""Archives from outside, extracted so that nothing lands outside its folder, and archives made.

`extract` writes into a new folder beside the target and moves it there when all of it is good: an archive is
there whole or not at all. `create` writes to a new name and gives it the final one at the end. Both work
below descriptors and follow no link. Formats: zip (stored, deflated), tar, tar.gz.
"""

from __future__ import annotations

from flysafe.archives.creation import Created, create
from flysafe.archives.extraction import Extracted, extract
from flysafe.archives.limits import LIMITS, ArchiveLimits, ArchiveRefused, Format, format_of

__all__ = (
    "LIMITS",
    "ArchiveLimits",
    "ArchiveRefused",
    "Created",
    "Extracted",
    "Format",
    "create",
    "extract",
    "format_of",
)
