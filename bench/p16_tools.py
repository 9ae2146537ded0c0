"""P16, the tools: how the cost of a registry, of its catalog, of lists and of a search grows with the tools.

Each sidecar has ten tools. The kernel is not started: what it does at a start and at each change of a file is
to load, to check and to build, which is measured here, and to draw rows, which P9 measures.
"""

from __future__ import annotations

import json
import tempfile
import time
from functools import partial
from pathlib import Path

import msgspec
from common import Row
from growth import linear, timed
from kernels import root
from p06_registry import entry

from flycore.catalog.document import catalog_document
from flycore.kernel.load_state import find_environment, read_files
from flycore.kernel.root_state import state_in_force
from flycore.model.diagnostics import nearest
from flycore.registry.load import load_registry
from flycore.registry.paths import REGISTRY_FILE
from flycore.server.mcp.tool_list import tool_list_of
from flytui.text.filter_query import listed_tool, parse_query

SIZES = {"quick": (10, 100, 1_000), "full": (10, 100, 1_000, 10_000)}
ROUNDS = {"quick": 3, "full": 3}
EACH = 10


def run(size: str) -> list[Row]:
    """Measure each step at all sizes."""
    figures: dict[str, dict[int, float]] = {}
    for tools in SIZES[size]:
        with tempfile.TemporaryDirectory() as folder:
            for name, seconds in _measure(Path(folder), tools, ROUNDS[size]).items():
                figures.setdefault(name, {})[tools] = seconds
    return [linear(f"{name}, by tools", seconds) for name, seconds in figures.items()]


def _measure(base: Path, tools: int, rounds: int) -> dict[str, float]:
    places, environ = root(base, {})
    # In the user's own registry, since a project's may have no more than 1,000 entries.
    path = Path(places.config_dir) / REGISTRY_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    sidecars = {f"bench.s{number}": _sidecar(number) for number in range(tools // EACH)}
    path.write_text(json.dumps({"schemaVersion": 2, "sidecars": sidecars}))
    environment = find_environment(places, environ)
    files = msgspec.structs.replace(read_files(environment, None), trusted=frozenset(sidecars))
    build = partial(state_in_force, environment, files, {}, time.time())
    catalog = build().catalog
    offered = [view for view in catalog.capabilities if view.capability.name.startswith("bench.")]
    if len(offered) != tools:
        raise RuntimeError(f"{len(offered)} tools of {tools}")
    rows = [listed_tool(view) for view in catalog.capabilities]
    names = [view.capability.name for view in catalog.capabilities]
    query = parse_query("tool9 risk:low")
    load = partial(load_registry, places, known=frozenset(), environ=environ)
    return {
        "a registry is loaded": timed(load, rounds),
        "its catalog is built": timed(build, rounds),
        "the catalog as a document": timed(lambda: catalog_document(catalog), rounds),
        "the tools as an MCP client lists them": timed(lambda: tool_list_of(catalog).all_tools(), rounds),
        "the filter of the console": timed(lambda: [query.matches(row) for row in rows], rounds),
        "names like a wrong one": timed(lambda: nearest("bench.tol7", names), rounds),
    }


def _sidecar(number: int) -> dict[str, object]:
    first = entry(number)
    (tool,) = first["tools"]  # type: ignore[misc]  # as P6 writes it
    tools = [{**tool, "name": f"bench.s{number}t{each}"} for each in range(EACH)]
    return {**first, "cwd": "empty", "command": "true", "tools": tools}
