"""Names of files that usually hold secrets."""

from __future__ import annotations

from flycore.policy.agent_commands.secret_files import is_secret_name, secret_part, surely_ignored
from kits.tables import each_row


@each_row(
    "name",
    [
        ".env",
        ".ENV",
        ".env.local",
        "prod.env",
        "id_rsa",
        "id_ed25519",
        "server.pem",
        "tls.key",
        ".netrc",
        ".npmrc",
        "credentials",
        "credentials.json",
        "secrets.yaml",
        "terraform.tfstate",
        ".aws",
        ".ssh",
        ".git",
        "x.kdbx",
        ".bash_history",
    ],
)
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)
    assert secret_part(f"a/{name}/b") == name


@each_row(
    "name",
    [
        ".env.example",
        "env.py",
        "id_rsa.pub",
        "README.md",
        "secrets.py",
        "environment.ts",
        "keys.py",
        "history",
        ".github",
        ".gitignore",
        "package.json",
    ],
)
def test_other_names(name: str) -> None:
    assert not is_secret_name(name)


@each_row(
    ("lines", "ignored"),
    [
        ([".env"], True),
        ([".env*"], True),
        (["*.env"], True),
        (["# .env"], False),
        (["/.env"], False),
        ([], False),
        ([".env", "!.env"], False),
        ([".env", "!.env.example"], True),
        ([".env", "!*"], False),
        ([".env", "!**"], False),
        (["a/.env"], False),
        ([".en[v]"], False),
        ([" .env "], True),
    ],
)
def test_what_git_surely_ignores(lines: list[str], ignored: bool) -> None:
    assert surely_ignored(".env", lines) is ignored
