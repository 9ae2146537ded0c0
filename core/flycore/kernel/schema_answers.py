"""What executables said when they were asked with `--schema`, as it is kept from one kernel to the next."""

from __future__ import annotations

from flycore.catalog.answer_cache import AnswerCache, CacheFile
from flycore.catalog.observations import Answer, Observations
from flycore.catalog.probes import ProbeFinding
from flycore.catalog.reasons import schema_unknown
from flycore.discovery.executables import executable_key
from flycore.model.base import Value
from flycore.model.enums import Kind, PathState, ProbeState
from flycore.model.sidecar import SidecarEntry
from flycore.model.stability import ProbeEvidence
from flycore.model.upstream import McpToolList
from flycore.pipeline.context import Files
from flycore.registry.paths import SCHEMAS_FILE, RootPaths

KEPT = 2_048
LARGEST = 16 * 1024 * 1024
VERSION = 1


class SchemaAnswer(Value, frozen=True, kw_only=True):
    """What an executable said: its tools, or None and in `why_not` a sentence without its subject."""

    listing: McpToolList | None = None
    why_not: str = ""
    evidence: ProbeEvidence
    lasting: bool = True
    """Whether the same file would say the same again. A time limit that was reached says nothing of that."""

    def answer(self, entry: SidecarEntry) -> Answer:
        """Return what was seen of the entry by this."""
        if self.listing is not None:
            healthy = ProbeFinding(state=ProbeState.HEALTHY, evidence=self.evidence)
            return Answer(finding=healthy, listing=self.listing)
        reason = schema_unknown(entry, self.why_not, self.evidence.stderr_tail)
        return Answer(finding=ProbeFinding(state=ProbeState.DEGRADED, reason=reason, evidence=self.evidence))


class SchemaCache(AnswerCache[SchemaAnswer]):
    """The answers of executables by `executable_key`, in `<cache dir>/schemas.json`."""

    def __init__(self, places: RootPaths) -> None:
        path = places.cache_dir / SCHEMAS_FILE
        super().__init__(path, CacheFile[SchemaAnswer], version=VERSION, kept=KEPT, largest=LARGEST)


def note_cached(files: Files, cache: SchemaCache, observations: Observations) -> None:
    """Note what is known of the executables without asking any."""
    for entry in files.registry.entries:
        said = cache.get(program_key(files, entry)) if entry.kind is Kind.EXECUTABLE else None
        if said is not None:
            observations.note(entry, said.answer(entry))


def program_key(files: Files, entry: SidecarEntry) -> str:
    """Return the key of the entry's program as it is now; empty where it cannot be read."""
    program = files.programs.get(entry.id)
    if program is None or program.state is not PathState.RESOLVED:
        return ""
    try:
        return executable_key(program.path)
    except OSError:
        return ""
