"""Names of files that usually hold passwords or keys. An agent is not shown their content without a person.

A name says little about a file, so this protects from accidents: a key in a file of another name is not
found.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

_NAMES = (
    ".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".npmrc", ".yarnrc*", ".pypirc", ".pgpass",
    ".my.cnf", ".git-credentials", ".htpasswd", ".vault-token", ".terraformrc", ".dockercfg", ".s3cfg",
    ".boto", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "authorized_keys", "known_hosts", "*.pem",
    "*.key", "*.p12", "*.pfx", "*.p8", "*.ppk", "*.jks", "*.keystore", "*.kdbx", "*.asc", "*.gpg", "*.age",
    "*.tfstate", "*.tfstate.*", "*.tfvars", "*.tfvars.json", "kubeconfig", "*.kubeconfig", "credentials",
    "credentials.*", "secret", "secret.*", "secrets", "secrets.*", "*.secret", "*.secrets",
    "service-account*.json", "service_account*.json", ".*_history", ".ssh", ".gnupg", ".aws", ".azure",
    ".gcloud", ".kube", ".docker", ".password-store", ".git",
)  # fmt: skip
"""Names of files and folders, in small letters, with patterns."""
_EXAMPLES = (".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults", "*.pub")
"""Names that fit one of the above, and hold no secret."""
_CODE = (
    ".py",
    ".js",
    ".ts",
    ".go",
    ".rs",
    ".java",
    ".c",
    ".h",
    ".cpp",
    ".rb",
    ".md",
    ".rst",
    ".html",
    ".css",
)
"""Endings of program texts and pages: `secrets.py` is a program."""


def is_secret_name(name: str) -> bool:
    """Return whether a file or folder of this name usually holds secrets."""
    small = name.lower()
    if any(fnmatchcase(small, pattern) for pattern in _EXAMPLES):
        return False
    if small.startswith("secret") and small.endswith(_CODE):
        return False
    return any(fnmatchcase(small, pattern) for pattern in _NAMES)


def secret_part(path: str) -> str:
    """Return the first part of a path that has such a name; empty where none has."""
    return next((part for part in path.split("/") if is_secret_name(part)), "")


def could_name_secret(ending: str) -> bool:
    """Return whether a file with such an ending (without the dot) may have one of these names."""
    return is_secret_name(f"x.{ending}")


def surely_ignored(name: str, ignore_lines: Iterable[str], *, folder: bool = False) -> bool:
    """Return whether git ignores each file, or each folder, of that name, by these lines of the project's own
    `.gitignore`.

    Only plain lines are read; a line that may take a file back makes it uncertain.
    """
    ignored = False
    for line in ignore_lines:
        pattern = line.strip()
        if folder and not pattern.startswith("!"):
            pattern = pattern.removesuffix("/")
        if not pattern or pattern.startswith("#"):
            continue
        if pattern.startswith("!"):
            last = pattern[1:].rstrip("/").rpartition("/")[2]
            if fnmatchcase(name, last) or "**" in pattern:
                return False
        elif "/" not in pattern and "[" not in pattern and "\\" not in pattern:
            ignored = ignored or fnmatchcase(name, pattern)
    return ignored
