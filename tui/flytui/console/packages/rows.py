"""Packages as the registry names them: what is wanted, what is there. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from flycore.model.catalog import Catalog, SidecarView
from flycore.model.enums import UpgradeState
from flytui.console.paint import Line, Span, Tone, column, fit, line, span, wrapped

FOLDER = "tools/packages"
TITLES = ("PACKAGE", "WANTED", "INSTALLED", "STATE", "SIDECAR")
NARROW = 76
"""Below this width, in cells, the sidecar is left to the details."""
_STATES: dict[UpgradeState | None, tuple[str, Tone]] = {
    None: ("– not checked", Tone.DIM),
    UpgradeState.IDLE: ("● idle", Tone.GOOD),
    UpgradeState.STAGED: ("◐ staged", Tone.WARN),
    UpgradeState.APPLYING: ("◐ applying", Tone.WARN),
    UpgradeState.ROLLBACK_REQUIRED: ("○ roll back", Tone.BAD),
    UpgradeState.FAILED: ("○ failed", Tone.BAD),
}


@dataclass(frozen=True, slots=True)
class PackageRow:
    """A package, through the sidecar that is made of it."""

    view: SidecarView

    @property
    def key(self) -> str:
        """The sidecar's id."""
        return self.view.id

    @property
    def package(self) -> str:
        """The package's id."""
        return self.view.entry.package_id or ""

    @property
    def wanted(self) -> str:
        """The version that the registry names."""
        return self.view.entry.package_version or ""

    @property
    def installed(self) -> str:
        """The version found; `""` where none is known."""
        seen = self.view.stability.evidence.version
        return (seen.installed_version if seen else None) or ""

    def draw(self, width: int) -> Line:
        """Package, versions, state and sidecar."""
        word, tone = _STATES[self.view.stability.upgrade]
        cells = [
            span(self.package, Tone.STRONG),
            span(self.wanted or "any"),
            span(self.installed or "not known", Tone.PLAIN if self.installed else Tone.WARN),
            span(word, tone),
            span(self.view.id, Tone.DIM),
        ]
        return columns(cells, width)

    def details(self, width: int) -> list[Line]:
        """Everything that is known of it."""
        facts = [
            ("sidecar", self.view.id),
            ("wanted", self.wanted or "any version"),
            ("installed", self.installed or "not known: flytui does not read packages yet"),
            ("belongs in", f"{FOLDER}/{self.package}"),
            ("command", " ".join((self.view.entry.command, *self.view.entry.args))),
            ("named at", str(self.view.entry.position or "")),
        ]
        rows = [line(Span(" "), span(self.package, Tone.STRONG)), ()]
        for name, value in facts:
            rows += wrapped([(*column((Span("   "), span(name, Tone.DIM)), 14), span(value))], width, 14)
        for reason in self.view.stability.reasons:
            if reason.dimension in ("version", "upgrade"):
                rows += [(), *wrapped([line(span(f"   {reason.message}", Tone.WARN))], width, 3)]
                rows += wrapped([line(span("   → ", Tone.ACCENT), span(reason.remedy))], width, 5)
        return rows


def package_rows(catalog: Catalog | None) -> list[PackageRow]:
    """The registry's packages by name."""
    views = [view for view in (catalog.sidecars if catalog else ()) if view.entry.package_id]
    return sorted((PackageRow(view) for view in views), key=lambda row: (row.package, row.key))


def columns(cells: list[Span], width: int) -> Line:
    """The cells that fit, in their widths."""
    name = max(16, width // 4)
    sizes = [name, 12, 12, 15] if width >= NARROW else [name, 10, 11]
    last = len(sizes)
    named = zip(cells, sizes, strict=False)
    row = [part for cell, size in named for part in (*column((cell,), size - 1), Span(" "))]
    return fit((*row, cells[last]), width)
