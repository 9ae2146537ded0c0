"""`python -m bench [--full] [NAME...]` runs all benchmarks, or those whose file name begins with NAME.

The quick size is the default, and takes about ten minutes in all; `--full` measures more rounds and larger
sizes, and also what a quick run leaves out unless it is named (`FULL_ONLY` in `bench/figures.py`). Each
benchmark is a process of its own. At the end comes one summary of all figures, and `bench/results.json` is
written, which keeps the figures of files that did not run.

`python -m bench --markdown` measures nothing: it prints the figures of `bench/results.json` as the table of
`docs/performance.md`, into which `docs/make_performance.py` writes it.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench.common import Row, table
from bench.figures import FIGURES, FULL_ONLY, LATER, differences, in_order
from bench.requirements import why_not
from bench.summary import markdown, summary

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
OPTIONS = {"--quick", "--full", "--markdown", "--help", "-h"}


def main(arguments: Sequence[str]) -> int:
    """Run the benchmarks, print and write the figures.

    The exit code is 0 also if goals are missed. It is 1 if a benchmark failed, or measured other figures than
    `bench/figures.py` lists, and 2 for an unknown option or name.
    """
    options = {argument for argument in arguments if argument.startswith("-")}
    if options - OPTIONS or options & {"--help", "-h"}:
        print(__doc__)
        return 2 if options - OPTIONS else 0
    if "--markdown" in options:
        print(markdown(all_rows()))
        return 0
    names = [argument for argument in arguments if not argument.startswith("-")]
    chosen = chosen_files(names, full="--full" in options)
    if not chosen:
        print(f"no benchmark begins with {' or '.join(names)}; there are {', '.join(FIGURES)}")
        return 2
    return _measure(chosen, "full" if "--full" in options else "quick")


def chosen_files(names: Sequence[str], *, full: bool) -> list[str]:
    """Return the files whose names begin with one of these; without names all that the size measures."""
    if names:
        return [stem for stem in FIGURES if any(stem.startswith(name) for name in names)]
    return [stem for stem in FIGURES if full or stem not in FULL_ONLY]


def _measure(chosen: Sequence[str], size: str) -> int:
    begun = time.monotonic()
    kept, faults = kept_results(), list[str]()
    for stem in chosen:
        print(f"\n{stem}", flush=True)
        missing = why_not(stem)
        if missing:
            print(f"not measured: {missing}")
            rows = [Row.unmeasured(what, missing) for what in FIGURES[stem]]
        else:
            measured = _run(stem, size)
            if measured is None:
                faults.append(f"{stem} failed")
                continue
            rows = measured
            print(table(rows), flush=True)
            faults += differences(stem, rows)
        kept[stem] = [asdict(row) for row in rows]
        _write(kept, size)
    print(f"\n{summary(rows_of({stem: kept[stem] for stem in chosen if stem in kept}))}")
    print(f"\n{size} size, {time.monotonic() - begun:.0f} s, {_load()}; written to {RESULTS.name}")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def _run(stem: str, size: str) -> list[Row] | None:
    """Run one benchmark in a process of its own, so that none finds the memory, the threads or the imports of
    another. None where it fails; it has said why."""
    begun = time.monotonic()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "-m", "bench.one", stem, size, file.name]
        done = subprocess.run(command, check=False, cwd=HERE.parent)
        rows = json.loads(file.read()) if done.returncode == 0 else None
    print(f"{time.monotonic() - begun:.0f} s", flush=True)
    return None if rows is None else [Row(**row) for row in rows]


def kept_results() -> dict[str, list[dict[str, object]]]:
    """Return the rows of each file as they were measured last."""
    rows: dict[str, list[dict[str, object]]] = (
        json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else {}
    )
    return {stem: rows[stem] for stem in FIGURES if stem in rows}


def rows_of(results: dict[str, list[dict[str, object]]]) -> list[Row]:
    """Return the rows of all files, in the order of the goals."""
    return [Row(**row) for stem in FIGURES for row in results.get(stem, ())]  # type: ignore[arg-type]  # JSON


def all_rows() -> list[Row]:
    """Return the rows that were measured last, in the order of the goals. Other figures have a row that says
    so."""
    kept = kept_results()
    not_run = {
        stem: [asdict(Row.unmeasured(what, "not run yet")) for what in FIGURES[stem]]
        for stem in FIGURES
        if stem not in kept
    }
    return in_order([*rows_of(kept | not_run), *LATER])


def _write(rows: dict[str, list[dict[str, object]]], size: str) -> None:
    machine = {
        "python": platform.python_version(),
        "system": platform.system(),
        "processors": os.cpu_count(),
        "load": _load(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "size": size,
    }
    RESULTS.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2, ensure_ascii=False) + "\n")


def _load() -> str:
    return f"load {os.getloadavg()[1]:.1f} on {os.cpu_count()} processors"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
