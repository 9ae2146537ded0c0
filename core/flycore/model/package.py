"""Packages of sidecars: what is installed and staged, what a change would do, and how it ended."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.enums import PackageResult, PackageScope, UpgradeState


class PackageReview(Value, frozen=True, kw_only=True):
    """What a staged version would change, for the person who decides it."""

    id: str
    sidecar: str
    """The id of the entry in the registry."""
    scope: PackageScope
    before: str = ""
    """The version that is installed; empty for none."""
    after: str
    """The version that is staged."""
    source: str = ""
    """Where it was staged from."""
    command: str
    runtime: str = ""
    """What the package says that it needs to run."""
    permissions: tuple[str, ...] = ()
    """The changes of what it may use, as lines of `flycore.model.json_diff`."""
    risk: tuple[str, ...] = ()
    """The tools whose risk changes, and new tools with their risk."""
    tools_added: tuple[str, ...] = ()
    tools_removed: tuple[str, ...] = ()
    difference: tuple[str, ...] = ()
    """Every change of the entry, as lines of `flycore.model.json_diff`."""
    notes: tuple[str, ...] = ()
    """What else a person should know: an absent checksum or probe, and values of the entry that stay."""
    needs_person: bool
    """Whether permissions or risks change, so that a person has to agree."""
    checksum: str
    """SHA-256 over all files of the package."""
    digest: str
    """The digest of what this review shows. An answer counts only for this one."""


class PackageView(Value, frozen=True, kw_only=True):
    """One package, as it is now."""

    id: str
    sidecar: str
    scope: PackageScope
    state: UpgradeState
    version: str = ""
    """The installed version; empty where none is."""
    staged: str = ""
    previous: str = ""
    """The version that a rollback leads to; empty where there is none."""
    source: str = ""
    """Where the installed version was staged from; empty where that is not known."""
    probed: bool = True
    """Whether the installed version has answered its probe, or has none."""
    why: str = ""
    """Why it has its state, where that needs a reason."""
    next_step: str = ""
    """The command that a person runs next; empty where nothing has to be done."""
    review: PackageReview | None = None


class PackageOutcome(Value, frozen=True, kw_only=True):
    """How a change of a package ended."""

    id: str
    sidecar: str = ""
    scope: PackageScope = PackageScope.PROJECT
    result: PackageResult
    state: UpgradeState = UpgradeState.IDLE
    message: str = ""
    next_step: str = ""

    @property
    def changed(self) -> bool:
        """Whether anything changed."""
        return self.result is not PackageResult.FAILED


class PackageCheck(Value, frozen=True, kw_only=True):
    """Whether the files of a package are those that were installed."""

    id: str
    scope: PackageScope
    version: str = ""
    checksum: str = ""
    problems: tuple[str, ...] = ()
