"""The catalog as it was last: what its file holds, and every file that counts as absent."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from flycore.model.kept_catalog import decode_kept, encode_kept
from kits.values import sample_catalog

CATALOG = sample_catalog()
FILE = encode_kept(CATALOG, "1.0", "files", 1_700_000_000.0)


def test_what_is_kept_is_what_the_list_shows() -> None:
    kept = decode_kept(FILE, "1.0", "files")
    assert kept is not None
    assert kept.at == 1_700_000_000.0
    tools = {row.tool: row for row in kept.rows if row.tool}
    assert tools.keys() == {view.capability.name for view in CATALOG.capabilities}
    for view in CATALOG.capabilities:
        row = tools[view.capability.name]
        assert (row.effective, row.risk, row.decision) == (
            view.stability.effective,
            view.capability.risk,
            view.decision,
        )
        assert (row.summary, row.offered) == (view.capability.summary, view.offered)
        first = view.stability.reasons[0] if view.stability.reasons else None
        assert (row.reason.message if row.reason else None) == (first.message if first else None)
    offering = {view.sidecar for view in CATALOG.capabilities}
    assert {row.sidecar for row in kept.rows if not row.tool} == {
        view.id for view in CATALOG.sidecars if view.id not in offering
    }


def test_it_holds_no_schema_and_no_command() -> None:
    for secret in (b"inputSchema", b'"properties"', b"argv", b"command"):
        assert secret not in FILE


def test_another_version_or_other_files_are_not_shown() -> None:
    assert decode_kept(FILE, "1.1", "files") is None
    assert decode_kept(FILE, "1.0", "others") is None


@given(st.integers(0, len(FILE) - 1))
def test_a_file_that_was_cut_counts_as_absent(length: int) -> None:
    assert decode_kept(FILE[:length], "1.0", "files") is None


@given(st.integers(FILE.index(b"\n") + 1, len(FILE) - 1), st.integers(1, 255))
def test_a_file_with_one_changed_byte_counts_as_absent(at: int, change: int) -> None:
    damaged = bytearray(FILE)
    damaged[at] ^= change
    assert decode_kept(bytes(damaged), "1.0", "files") is None


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_exception(data: bytes) -> None:
    assert decode_kept(data, "1.0", "files") is None
    head = FILE.partition(b"\n")[0]
    assert decode_kept(head + b"\n" + data, "1.0", "files") is None


def test_a_time_that_no_clock_shows_counts_as_damage() -> None:
    head, _, body = FILE.partition(b"\n")
    for at in (-1.0, 1e300):
        other = {**msgspec.json.decode(head), "at": at}
        assert decode_kept(msgspec.json.encode(other) + b"\n" + body, "1.0", "files") is None
    assert decode_kept(head.replace(b"1700000000.0", b"1e999") + b"\n" + body, "1.0", "files") is None
