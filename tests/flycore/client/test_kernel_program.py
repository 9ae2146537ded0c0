"""The program of a kernel on demand: its one report to the command that waits for it."""

from __future__ import annotations

import os
from pathlib import Path

from flycore.client.kernel_program import Reports
from flycore.client.kernel_start import StartReport


def test_a_second_report_is_written_into_no_file_that_has_the_number_now(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    reports = Reports(writing)
    assert reports.send(StartReport(ready=True))
    other = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    try:
        assert other == writing
        assert not reports.send(StartReport(failed="later"))
        assert (tmp_path / "log").read_bytes() == b""
        assert os.read(reading, 1000).startswith(b'{"ready":true')
    finally:
        os.close(other)
        os.close(reading)
