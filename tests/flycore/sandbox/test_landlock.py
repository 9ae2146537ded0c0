"""The rights that Landlock takes and gives back, version by version."""

from __future__ import annotations

from flycore.sandbox.landlock import ON_FILES, Rights, handled_rights, mount_rights
from kits.tables import each_row

READ, READ_FILE = 0b1101, 0b101  # execute, read a file, list a folder


@each_row(
    ("abi", "rights"),
    [
        (1, Rights(0x1FFF, 0, 0)),
        (2, Rights(0x3FFF, 0, 0)),
        (3, Rights(0x7FFF, 0, 0)),
        (4, Rights(0x7FFF, 3, 0)),
        (5, Rights(0xFFFF, 3, 0)),
        (6, Rights(0xFFFF, 3, 3)),
        (9, Rights(0xFFFF, 3, 3)),
    ],
)
def test_each_version_is_asked_only_for_what_it_knows(abi: int, rights: Rights) -> None:
    assert handled_rights(abi, network=False) == rights
    assert handled_rights(abi, network=True) == Rights(rights.files, 0, rights.scopes)


def test_a_read_only_mount_gives_back_reading_and_a_file_no_rights_of_folders() -> None:
    handled = handled_rights(6, network=False).files
    assert mount_rights(handled, writable=False) == READ
    assert mount_rights(handled, writable=False) & ON_FILES == READ_FILE
    assert mount_rights(handled, writable=True) == handled
    assert mount_rights(handled, writable=True) & ON_FILES == 0b1100000000000111
