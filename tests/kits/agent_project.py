"""A project folder as coding agents work in, with the files by which a reader would be tricked."""

from __future__ import annotations

import subprocess
from pathlib import Path

KEY = "a-key-that-nobody-should-see"
FILES = {
    "README.md": "A shop.\nfoo bar\n",
    "src/a.py": "def main():\n    foo = 1\n",
    "src/lib/b.py": "def other():\n    return 2\n",
    "docs/guide.md": "foo,bar\nfoo.bar\n",
    "docs/notes.md": "foo\n",
    "package.json": '{"name": "shop", "scripts": {"test": "true"}}\n',
    ".env.example": "KEY=\n",
    ".gitignore": ".env\n",
    "dashes/--pre=.evil": "foo\n",
    "dashes/-la": "foo\n",
    "dashes/foo.txt": "foo\n",
}


def git(root: Path, *words: str) -> str:
    """Run git in the project, without anybody's settings."""
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(root.parent)}
    environment["GIT_CONFIG_NOSYSTEM"] = "1"
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")
    done = subprocess.run(
        ["git", *identity, *words], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def make_project(folder: Path) -> Path:
    """Make `shop` in the folder: a repository with two commits, links that lead out, a file with a key."""
    folder = folder.resolve()
    root, outside = folder / "shop", folder / "outside"
    outside.mkdir()
    (outside / "key").write_text(KEY)
    (outside / "passwd").write_text(KEY)
    for name, text in FILES.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    (root / ".env").write_text(f"KEY={KEY}\n")
    (root / "inside").symlink_to("src")
    (root / "out").symlink_to(outside)
    (root / "leaky").mkdir()
    (root / "leaky" / "key").symlink_to(outside / "key")
    git(root, "init", "-q", "-b", "main")
    git(root, "remote", "add", "origin", "https://example.org/shop.git")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "Begin")
    (root / "src" / "a.py").write_text("def main():\n    foo = 2\n")
    git(root, "commit", "-q", "-a", "-m", "Change")
    return root
