"""`python -m bench [--quick] [NAME...]` runs all benchmarks, or those whose file name begins with NAME.

It prints a table and writes `bench/results.json`, which keeps the figures of files that did not run.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"


def main(arguments: Sequence[str]) -> int:
    """Run the benchmarks, print and write the figures. The exit code is 0 also if goals are not met; it is
    not 0 for an unknown name."""
    options = {argument for argument in arguments if argument.startswith("-")}
    if options - {"--quick"}:
        print(__doc__)
        return 0 if options <= {"--help", "-h", "--quick"} else 2
    sys.path.append(str(HERE))  # last: `profile` is a module of the standard library as well
    from common import Row, table

    size = "quick" if "--quick" in arguments else "full"
    names = [argument for argument in arguments if not argument.startswith("-")]
    found = sorted(path.stem for path in HERE.glob("[ps][0-9]*.py"))
    chosen = [stem for stem in found if not names or any(stem.startswith(name) for name in names)]
    if not chosen:
        print(f"no benchmark begins with {' or '.join(names)}; there are {', '.join(found)}")
        return 2
    kept = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else {}
    for stem in chosen:
        print(f"\n{stem}", flush=True)
        rows: list[Row] = import_module(stem).run(size)
        print(table(rows), flush=True)
        kept[stem] = [asdict(row) for row in rows]
    machine = {"python": platform.python_version(), "system": platform.system(), "size": size}
    RESULTS.write_text(json.dumps({"machine": machine, "rows": kept}, indent=2, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
