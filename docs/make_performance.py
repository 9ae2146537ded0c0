"""Writes the figures of the last benchmarks, `bench/results.json`, into docs/performance.md.

Run `make bench` first; what it did not measure is named in the table.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- figures: docs/make_performance.py -->", "<!-- end of the figures -->"


def main() -> None:
    """Replace the table between the two marks."""
    command = [sys.executable, "-m", "bench", "--markdown"]
    table = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
