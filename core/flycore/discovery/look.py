"""Everything that is described below an app root and in the person's own folders, and what wins."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from flycore.discovery.folder import Anchor
from flycore.discovery.kits import PROJECT_FILES, USER_FILE, read_kits
from flycore.model.diagnostics import Diagnostic, Severity
from flycore.model.source import Described, DescribedState, Origin
from flycore.registry.places import Places

SHADOWED_RULE = "shadowed"
Stamps = tuple[tuple[str, int, int, int, int] | None, ...]
"""Of each file and folder: name, inode, size, time of its content and of its inode in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Grounds:
    """The folders that are looked in."""

    project: Anchor
    config: Anchor
    home: Anchor | None
    """None where the person's home is not known, or is the app root itself."""


def grounds_of(places: Places, environ: Mapping[str, str]) -> Grounds:
    """Where to look for one root; `environ` names the home."""
    home = environ.get("HOME", "").rstrip("/")
    known = home.startswith("/") and Path(home) != places.app_root
    below = f"{home}/" if known else "\0"
    config = f"{places.config_dir}/"
    shown = f"~/{config[len(below) :]}" if config.startswith(below) else config
    return Grounds(
        project=Anchor(places.app_root, Origin.PROJECT),
        config=Anchor(places.config_dir, Origin.USER, shown),
        home=Anchor(Path(home), Origin.USER, "~/") if known else None,
    )


def look(grounds: Grounds) -> tuple[Described, ...]:
    """Read all of it. Never raises for what stands in a file; starts nothing."""
    return tuple(_with_shadows(read_kits(grounds.project, grounds.config)))


def watched(grounds: Grounds) -> Iterator[tuple[Anchor, str]]:
    """The files that `look` would read now, and the folders it would list."""
    for file in PROJECT_FILES:
        yield grounds.project, file
    yield grounds.config, USER_FILE


def _with_shadows(found: Iterable[Described]) -> Iterator[Described]:
    """Of each kind and id the first that is not faulty wins; the others stay, and say who does."""
    listed = list(found)
    winners: dict[str, Described] = {}
    for described in listed:
        if described.state is not DescribedState.FAULTY:
            winners.setdefault(described.key, described)
    for described in listed:
        winner = winners.get(described.key, described)
        if winner is described or described.state is DescribedState.FAULTY:
            yield described
            continue
        where = winner.path or "flytui itself"
        reason = Diagnostic(
            severity=Severity.INFO,
            rule=SHADOWED_RULE,
            message=f"{described.id}: the one of {where} wins",
            remedy="give one of the two another name",
        )
        yield msgspec.structs.replace(
            described, state=DescribedState.SHADOWED, reasons=(*described.reasons, reason)
        )


def stamps(grounds: Grounds) -> Stamps:
    """What changes whenever `look` may find something else."""
    return tuple(_stamp(anchor, relative) for anchor, relative in watched(grounds))


def _stamp(anchor: Anchor, relative: str) -> tuple[str, int, int, int, int] | None:
    try:
        status = os.stat(anchor.path / relative)
    except OSError:
        return None
    name = anchor.shown(relative)
    return name, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
