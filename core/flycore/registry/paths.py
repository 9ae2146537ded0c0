"""The paths of an app root: all names of files and folders on disk. Nothing here creates or opens a file."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from flysafe.runtime_folder import APP_NAME, socket_path

REGISTRY_FILE = "tools/external.tools.jsonc"
LEGACY_REGISTRY_FILE = ".flyflor/tools/external.tools.jsonc"
TOOLS_CONFIG_FILE = "tools/config.jsonc"
"""File of the project: the folders that are searched for tools, and the limits of tools that agents make."""
MANIFESTS_DIR = "tools/manifests"
"""Folder of the project with one folder for each tool manifest."""
MANIFEST_FILE = "tool.yml"
POLICY_FILE = "policy.jsonc"
PROJECT_POLICY_FILE = "tools/policy.jsonc"
PROJECT_TOOLS = "tools/bin"
SETTINGS_FILE = "config.jsonc"
BUNDLES_FILE = "bundles.json"
"""File of the team bundles that the person applied, in the config folder."""
BUNDLE_KEYS_FILE = "bundle-keys.json"
"""File of the keys that the person trusts to sign bundles, in the config folder."""
TRUST_FILE = "trust.json"
DEFINITIONS_FILE = "upstream.json"
BLOCKS_FILE = "blocks.json"
NESTED_ROOTS_FILE = "nested_roots.json"
SEALS_FILE = "seals.json"
OBSERVED_FILE = "observed.json"
POLICY_RULES_FILE = "policy-rules.json"
PANIC_FILE = "panic.json"
CONSOLE_FILE = "console.json"
KEPT_CATALOG_FILE = "catalog.jsonl"
TICKETS_FILE = "tickets.json"
TOKENS_FILE = "tokens.json"
LOGINS_FILE = "logins.json"
"""File of the logins at MCP servers over HTTP."""
SESSIONS_FILE = "sessions.json"
CLIENTS_FILE = "clients.json"
MCP_TOOLS_FILE = "mcp_tools.json"
"""File of the process groups that kernels of this root started; a later kernel ends those that remain."""
ROOTS_DIR = "roots"
KERNEL_LOCK = "kernel.lock"
CONSOLE_LOCK = "console.next"
START_LOCK = "kernel.start"
PROBES_FILE = "probes.json"
SCHEMAS_FILE = "schemas.json"
AUDIT_DIR = "audit"
ARTIFACTS_DIR = "artifacts"
CREATED_DIR = "created"
UNDO_DIR = "undo"
MOVED_ASIDE_DIR = "moved-aside"
STORE_DIR = "store"
PACKAGES_DIR = "tools/packages"
"""Folder of the project with a folder for each installed package."""
USER_PACKAGES_DIR = "packages"
"""The same below the user's data folder. The records of packages have this name in a state folder as well."""
EMPTY_DIR = "empty"
SYSTEM_TOOLS = Path("/usr/local/share/flytui/tools")
"""The folder of executables for every user of the machine."""
SYSTEM_CONFIG_DIR = Path("/etc/flytui")
"""The folder of the machine, with a policy for every user."""


class RootPaths(NamedTuple):  # not a dataclass, whose imports take as long as all others of a short command
    """All folders of one app root, absolute."""

    app_root: Path
    workspace: Path
    config_dir: Path
    """The person's own folder: settings, policy, and `tools/` with the user's registry."""
    state_dir: Path
    """`<state>/roots/<key>`: lock, trust, grants, audit of this root."""
    data_dir: Path
    cache_dir: Path
    socket: Path

    @property
    def console_file(self) -> Path:
        """What the console remembers for the person, whatever the root."""
        return self.state_dir.parent.parent / CONSOLE_FILE

    @property
    def own_folders(self) -> tuple[Path, ...]:
        """The folders of flytui itself, which no tool writes."""
        return (
            self.state_dir.parent.parent,
            self.config_dir,
            self.data_dir,
            self.cache_dir,
            self.socket.parent,
        )

    @property
    def moved_aside_dir(self) -> Path:
        """The folder of what calls made under protected names, with one folder for each call."""
        return self.state_dir / MOVED_ASIDE_DIR

    @property
    def key(self) -> str:
        """The name of this root in shared folders: 16 hexadecimal digits of a hash of its real path."""
        return root_key(self.app_root)

    @property
    def policy_file(self) -> Path:
        """The policy file of the person."""
        return self.config_dir / POLICY_FILE

    @property
    def trust_file(self) -> Path:
        """The file of the entries that a person trusts."""
        return self.state_dir / TRUST_FILE

    @property
    def definitions_file(self) -> Path:
        """The file of the definitions of MCP tools that a person has seen."""
        return self.state_dir / DEFINITIONS_FILE

    @property
    def blocks_file(self) -> Path:
        """The file of the tools that are blocked until a person allows them."""
        return self.state_dir / BLOCKS_FILE

    @property
    def nested_roots_file(self) -> Path:
        """The file of a person's answers about the roots that lie within this one."""
        return self.state_dir / NESTED_ROOTS_FILE

    @property
    def seals_file(self) -> Path:
        """The file of the programs that a person accepted with trust or by an approval."""
        return self.state_dir / SEALS_FILE

    @property
    def policy_rules_file(self) -> Path:
        """The file of the person's policy rules that counted in the last kernel."""
        return self.state_dir / POLICY_RULES_FILE

    @property
    def kept_catalog_file(self) -> Path:
        """The catalog as it was last, which a console shows until its kernel has answered."""
        return self.state_dir / KEPT_CATALOG_FILE

    @property
    def observed_file(self) -> Path:
        """The file of the calls that succeeded and are not observed any more."""
        return self.state_dir / OBSERVED_FILE

    @property
    def audit_dir(self) -> Path:
        """The folder of the audit log, which has one file for each month."""
        return self.state_dir / AUDIT_DIR

    @property
    def anchors_file(self) -> Path:
        """The file that records the last lines of the audit log."""
        # It is outside the state folder, and shows when lines at the end of the log were removed.
        return self.data_dir / "anchors" / f"{self.key}.jsonl"

    @property
    def artifacts_dir(self) -> Path:
        """The folder of the files that calls made, with one folder for each call."""
        return self.state_dir / ARTIFACTS_DIR

    @property
    def user_tools_dir(self) -> Path:
        """The folder of the user's own executables, which are tools in every root."""
        return self.data_dir / "tools"

    @property
    def undo_dir(self) -> Path:
        """The folder of what the files were before the changes of the last days."""
        return self.state_dir / UNDO_DIR

    @property
    def empty_dir(self) -> Path:
        """The working folder of programs that start in an empty one."""
        return self.state_dir / EMPTY_DIR

    @property
    def clients_file(self) -> Path:
        """What `flytui connect` wrote into the files of agents' programs."""
        return self.state_dir / CLIENTS_FILE

    @property
    def mcp_tools_file(self) -> Path:
        """The lists that MCP clients get, as they were last."""
        return self.state_dir / MCP_TOOLS_FILE

    @property
    def created_dir(self) -> Path:
        """The folder of the tools that agents made, with one folder for each."""
        return self.state_dir / CREATED_DIR

    @property
    def package_records_dir(self) -> Path:
        """The folder of the records of this project's packages."""
        return self.state_dir / USER_PACKAGES_DIR

    @property
    def user_package_records_dir(self) -> Path:
        """The folder of the records of the user's packages, which are the same in every root."""
        return self.state_dir.parent.parent / USER_PACKAGES_DIR

    @property
    def store_dir(self) -> Path:
        """The folder of the sealed programs, named by their content and shared by all roots."""
        return self.data_dir / STORE_DIR


def root_key(app_root: Path) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of the real path."""
    return hashlib.sha256(os.fsencode(os.path.realpath(app_root))).hexdigest()[:16]


def roots_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder that has the state folder of each root, named by the root's key."""
    return _user_folder("state", environ) / ROOTS_DIR


def find_paths(root: str | None, workspace: str | None, environ: Mapping[str, str], cwd: Path) -> RootPaths:
    """Find the app root, and return all paths that follow from it.

    The root is `root`, else FLYTUI_ROOT, else the nearest folder from `cwd` upwards that has a registry, else
    `cwd`. Relative names start at `cwd`.
    """
    named = root or environ.get("FLYTUI_ROOT")
    found = cwd / named if named else _ancestor_with_registry(cwd) or cwd
    app_root = Path(os.path.realpath(found))
    key = root_key(app_root)
    return RootPaths(
        app_root=app_root,
        workspace=Path(os.path.realpath(cwd / workspace)) if workspace else app_root,
        config_dir=_user_folder("config", environ),
        state_dir=roots_folder(environ) / key,
        data_dir=_user_folder("data", environ),
        cache_dir=_user_folder("cache", environ),
        socket=Path(socket_path(f"{key}.sock", environ)),
    )


def _ancestor_with_registry(cwd: Path) -> Path | None:
    for folder in (cwd, *cwd.parents):
        if any(os.path.lexists(folder / name) for name in (REGISTRY_FILE, LEGACY_REGISTRY_FILE)):
            return folder
    return None


_XDG = {
    "config": ("XDG_CONFIG_HOME", ".config"),
    "state": ("XDG_STATE_HOME", ".local/state"),
    "data": ("XDG_DATA_HOME", ".local/share"),
    "cache": ("XDG_CACHE_HOME", ".cache"),
}


def _user_folder(what: str, environ: Mapping[str, str]) -> Path:
    """Return one of the user's folders."""
    # `platformdirs` reads the environment of this process, and `environ` may be another one. So it is used
    # only where `environ` does not decide.
    variable, below_home = _XDG[what]
    value = environ.get(variable, "")
    if os.path.isabs(value):
        return Path(value) / APP_NAME
    home = environ.get("HOME", "")
    if os.path.isabs(home) and sys.platform == "linux":
        return Path(home) / below_home / APP_NAME
    import platformdirs

    folders = platformdirs.PlatformDirs(APP_NAME, appauthor=False)
    return {
        "config": folders.user_config_path,
        "state": folders.user_state_path,
        "data": folders.user_data_path,
        "cache": folders.user_cache_path,
    }[what]
