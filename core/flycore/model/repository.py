"""What identifies a git repository, and a trust that was given in one of its worktrees or clones."""

from __future__ import annotations

from flycore.model.base import Value
from flycore.model.enums import ProgramComparison


class RepositoryIdentity(Value, frozen=True, kw_only=True):
    """The repository that an app root lies in, as its own files name it.

    Nothing in it is proof: whoever writes a folder can give it any history and any settings.
    """

    root_commit: str
    """The first commit of the history of HEAD, by first parents: 40 or 64 hex digits; empty where it cannot
    be told."""
    remote: str = ""
    """Where `origin`, or the first remote by name, is fetched from: host and path without user, password
    and the ending `.git`, or an absolute path; empty where there is no remote."""
    folder: str
    """The app root's place in the work tree, such as `services/shop`; empty for the work tree's top."""
    common: str
    """Absolute path of the folder with the history, which all worktrees share, without `/.git` at its
    end."""

    def is_same(self, other: RepositoryIdentity) -> bool:
        """Whether both are the same place of one repository: worktrees of it, or clones with equal first
        commits and equal remotes, or of which one was cloned from the other."""
        if self.folder != other.folder:
            return False
        if self.common == other.common:
            return True
        if not self.root_commit or self.root_commit != other.root_commit:
            return False
        return self.remote == other.remote or self.remote == other.common or other.remote == self.common


class TrustedElsewhere(Value, frozen=True, kw_only=True):
    """Trust that a person gave to an entry of the same id in another folder of the same repository."""

    root: str
    """Absolute path of that app root, as it was when the trust was given."""
    at: float
    """When it was given: Unix time, seconds."""
    same: bool
    """Whether exactly this value of the entry is trusted there."""
    programs: ProgramComparison = ProgramComparison.UNKNOWN
    """Whether its programs have the content that was trusted there; compared for the same value only."""
    difference: tuple[str, ...] = ()
    """For another value: the difference from the value that is trusted there, as lines of
    `flycore.model.json_diff`."""

    @property
    def unchanged(self) -> bool:
        """Whether entry and programs are what is trusted there."""
        return self.same and self.programs is ProgramComparison.SAME
