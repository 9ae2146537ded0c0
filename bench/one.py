"""`python -m bench.one STEM SIZE FILE` runs one benchmark and writes its rows to FILE as JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path


def main(stem: str, size: str, file: str) -> None:
    """Run the benchmark of that file name; its exceptions end the process."""
    sys.path.append(str(Path(__file__).parent))  # last: `profile` is a module of the standard library as well
    rows = import_module(stem).run(size)
    Path(file).write_text(json.dumps([asdict(row) for row in rows]))


if __name__ == "__main__":
    main(*sys.argv[1:])
