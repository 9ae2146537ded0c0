"""What the console reads before its first frame: the person's settings, and the catalog as it was last.

Nothing of the kernel is imported here, because that would delay the frame.
"""

from __future__ import annotations

from flycore import __version__
from flycore.model.kept_catalog import MAX_KEPT_BYTES, KeptCatalog, decode_kept
from flycore.registry.paths import RootPaths
from flycore.registry.settings import ReadSettings as ReadSettings
from flycore.registry.settings import read_settings as read_settings
from flycore.registry.stamps import files_digest
from flysafe.beneath import read_beneath


def read_kept_catalog(places: RootPaths) -> KeptCatalog | None:
    """Return the catalog as a kernel of this root last saw it; None where none was kept, the root's files are
    others by now, or the file is damaged, too large or of another version."""
    file = places.kept_catalog_file
    try:
        data = read_beneath(file.parent, file.name, MAX_KEPT_BYTES)
    except OSError:
        return None
    return decode_kept(data, __version__, files_digest(places))
