"""Extracts archives from outside, so that no file lands outside the target folder, and creates archives.

`extract` writes into a new folder beside the target and moves the contents there when the whole archive was
good. `create` writes to a temporary name and gives the archive its final name at the end. Both work below
descriptors and follow no links. The formats are zip (stored, deflated), tar and tar.gz.
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
