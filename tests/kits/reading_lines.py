"""Command lines of the kinds that coding agents write to read, with odd variants, and folders for them."""

from __future__ import annotations

import os
import random
import shlex
from collections.abc import Iterator
from pathlib import Path

from flycore.policy.agent_commands.table import CommandEntry, Operands, command_table
from kits.agent_project import KEY, git, make_project

ORDINARY = """
ls -la | ls -la src | ls src/*.py | ls -R src 2>/dev/null | ls -lt docs | ls nowhere 2>&1 | cat README.md
cat src/a.py docs/guide.md | cat docs/*.md | cat -n src/a.py | head -20 README.md | head -n 2 src/*.py
tail -n 3 docs/guide.md | tail -20 README.md | wc -l src/a.py docs/*.md | nl -ba src/a.py | grep -rn foo src
grep -n 'def ' src/a.py | grep -c foo docs/*.md | grep -rn foo src --include='*.py'
grep foo docs/guide.md -n | grep -A 2 -B 2 foo docs/notes.md | grep -E '^(def|class) ' src/a.py
egrep 'foo|bar' docs/guide.md | fgrep foo docs/guide.md -c | grep -l foo docs/guide.md docs/notes.md
rg foo | rg -n foo src | rg -l foo docs | rg -t py 'def' src | rg -g '*.py' foo | rg --files src
rg -c foo src | find . -name '*.py' | find src -type f | find . -maxdepth 2 -type d
find docs -newer README.md -print | find src -name '*.py' -size -5k -printf '%p %s\\n' | du -sh src docs
du -h -d 1 src | stat -c '%n %s' README.md | file README.md src/a.py | md5sum README.md
sha256sum src/a.py docs/guide.md | cksum README.md | shasum README.md | sort docs/guide.md
sort -t , -k 2 docs/guide.md | sort docs/notes.md -r | uniq docs/guide.md | uniq -c docs/notes.md
cut -d , -f 1 docs/guide.md | cut -c 1-3 docs/guide.md | diff src/a.py src/lib/b.py
diff -u docs/guide.md docs/notes.md | cmp src/a.py src/lib/b.py | comm -12 docs/guide.md docs/notes.md
od -c README.md | fold -w 20 README.md | paste docs/guide.md docs/notes.md | column -t docs/guide.md
rev docs/notes.md | tac docs/guide.md | sed -n '1,5p' src/a.py | sed 's/foo/bar/' docs/guide.md
sed -n '$p' README.md | jq . package.json | jq -r .name package.json | jq '.scripts | keys' package.json
jq -n '1 + 1' | pwd | echo hello | echo -n a b | date | date +%F | date -u +%s | uname -a | whoami
which git | which -a ls git | type ls | command -v git | command -v nothing | seq 3 | seq 1 2 9
basename src/a.py .py | dirname src/a.py | realpath src/a.py | readlink -f inside | true | false
git status | git status --short | git status -sb | git status --porcelain=v2 --branch | git diff
git diff --stat | git diff HEAD~1 | git diff HEAD~1 -- src | git diff --cached --name-only
git diff main..HEAD | git diff README.md | git log | git log --oneline -5 | git log -p src/a.py
git log --stat -n 1 | git log --oneline --graph --all | git log --format='%h %an %s'
git log --since='2 weeks ago' --author=a | git log -S foo --oneline | git log -L1,2:src/a.py
git log --pretty=format:'%C(auto)%h%d %s' -3 | git log main --oneline -1 | git show | git show HEAD~1 --stat
git show HEAD:src/a.py | git show -s --format=%ci HEAD | git blame src/a.py | git blame -L 1,2 src/a.py
git branch | git branch -a -vv | git branch --show-current | git branch --list 'm*'
git branch --contains HEAD | git tag | git tag -l 'v*' | git remote -v | git remote get-url origin
git stash list | git reflog -3 | git worktree list | git ls-files src | git ls-files -o --exclude-standard
git ls-tree -r HEAD | git cat-file -p HEAD | git cat-file -t HEAD | git rev-parse HEAD
git rev-parse --show-toplevel --git-dir | git merge-base main HEAD | git describe --always --tags
git describe --dirty --always | git shortlog -sn HEAD | git grep -n foo | git grep foo -- src | git show-ref
git for-each-ref --format='%(refname:short)' | git rev-list --count HEAD | git check-ignore -v .env
git count-objects -v | git diff-tree -p HEAD | git range-diff HEAD~1 HEAD HEAD | git cherry HEAD~1 HEAD
git name-rev HEAD | git --version | git -C src log -1 | git stash show -p
git log --format='%(describe) %N' -1 | git --no-pager log -1 --show-pulls
"""
"""Lines with one command each; several on one line, between bars."""

_WORDS = (
    "README.md", "src/a.py", "src", "docs", "docs/guide.md", "docs/*.md", "src/*.py", "z*", "z1 z2", "*",
    "?1", "inside", "inside/a.py", "out", "out/key", "leaky/key", "leaky", "fifo", "pipes/*", "nowhere",
    ".env", ".", "..", "-", "--", "../outside/key", "-la", "-v", "-n", "-e", "-o", "HEAD", "HEAD~1",
    "main..HEAD", "HEAD:src/a.py", ":README.md", "origin", "foo", "'foo|bar'", "'*.py'", "5", "1", "inf",
    "1e9", "'%G?'", "'%+GK'", "'% GS'", "'%h %s'", "new", "dashes/*", "traps/*", "sub", "docs/b",
    "link-to-fifo", "'.[0]'", ".", "'s/a/b/'", "1p", "made/*", "package.json", "'s/a/b/w made'",
    "'def f: f; f'", "'repeat(1)'", "+%F", "010101012020", "--output=made", "/dev/zero", "/dev/stdin",
)  # fmt: skip
"""What may stand where a command takes a word: files, patterns, links, pipes, options, things of git."""
_VALUES = (
    "1", "foo", "made", "../outside/key", "out/key", "src", "'%G?'", "format:%+GS", "'%-GK'", "fifo",
    "HEAD", "'*.py'",
)  # fmt: skip


def ordinary_lines() -> list[str]:
    """Lines as an agent writes them, alone and joined."""
    single = [part.strip() for row in ORDINARY.strip().splitlines() for part in _split(row)]
    found = list(single)
    for at, line in enumerate(single):
        match at % 6:
            case 0:
                found.append(f"{line} | head -3")
            case 1:
                found.append(f"{line} 2>/dev/null | grep -v foo | wc -l")
            case 2:
                found.append(f"cd ./src && {line}")
            case 3:
                found.append(f"{line} && echo done || echo failed")
            case 4:
                found.append(f"{line}; git status --short | cut -c 1-2 | sort | uniq -c | tail -n 5")
            case _:
                found.append(f"{line} | tr a-z A-Z | sed -n '1,3p' > /dev/null 2>&1")
    return found


def _split(row: str) -> list[str]:
    """The lines of a row, between bars that stand outside of quotes."""
    found, word = [], []
    for one in shlex.split(row, posix=False):
        if one == "|":
            found.append(" ".join(word))
            word = []
        else:
            word.append(one)
    return [*found, " ".join(word)]


def option_lines() -> Iterator[str]:
    """Each option of each row of the table, before and behind operands, with values that may be harmful."""
    table = command_table()
    for prefix, rows in (("", table.commands), ("git ", table.git)):
        for name, entry in rows.items():
            operands = _operands(entry)
            given = [f"{option}{value}" for option, values in _options(entry) for value in values]
            for at, option in enumerate(given):
                chosen = operands[at % len(operands)]
                yield " ".join(filter(None, (f"{prefix}{name}", option, chosen)))
                yield " ".join(filter(None, (f"{prefix}{name}", chosen, option)))


def _options(entry: CommandEntry) -> Iterator[tuple[str, tuple[str, ...]]]:
    attached = tuple(value.strip("'") for value in _VALUES if "%" not in value and "*" not in value)
    for letter in entry.short + entry.short_optional:
        yield f"-{letter}", ("",)
    for letter in entry.short_values:
        yield f"-{letter} ", _VALUES
    for letter in entry.short_optional:
        yield f"-{letter}", attached
    for name in (*entry.long.split(), *entry.long_optional.split()):
        yield f"--{name}", ("",)
    for name in (*entry.long_values.split(), *entry.long_optional.split()):
        yield f"--{name}=", _VALUES
    for name in entry.long_values.split():
        yield f"--{name} ", _VALUES


def _operands(entry: CommandEntry) -> tuple[str, ...]:
    match entry.operands:
        case Operands.NONE:
            return ("",)
        case Operands.TEXT:
            return ("git", "3 4")
        case Operands.PATTERN_READ | Operands.PATTERN_REVISION:
            return ("foo README.md", "1p src")
        case Operands.REVISION:
            return ("", "HEAD", "src/a.py")
        case Operands.LIST | Operands.READ | Operands.FILE:
            return ("README.md", "docs/guide.md docs/notes.md")


def random_lines(count: int, seed: int) -> Iterator[str]:
    """Lines of one to three commands with options and words in any order."""
    chance = random.Random(seed)
    table = command_table()
    rows = [(name, entry) for name, entry in table.commands.items()]
    rows += [(f"git {name}", entry) for name, entry in table.git.items()]
    rows += [("find", table.commands["find"]), ("echo", table.commands["echo"])] * 2
    for _ in range(count):
        commands = [
            _random_command(chance, *chance.choice(rows)) for _ in range(chance.choice((1, 1, 1, 2, 3)))
        ]
        connectors = [chance.choice((" | ", " | ", " && ", " || ", "; ")) for _ in commands]
        line = "".join(one + link for one, link in zip(commands, connectors, strict=True))
        yield line.rstrip(" |&;")


def _random_command(chance: random.Random, name: str, entry: CommandEntry) -> str:
    words = [chance.choice(_WORDS) for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3)))]
    if entry.operands in (Operands.PATTERN_READ, Operands.PATTERN_REVISION):
        words.insert(0, chance.choice(("foo", "1p", ".", "'f.*o'")))
    options = list(_options(entry))
    if name == "find":
        find = command_table().find
        options = [(one, ("",)) for one in find.tests] + [
            (f"{one} ", _VALUES) for one in find.values | find.paths
        ]
        options.sort()
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        if options:
            option, values = chance.choice(options)
            words.insert(chance.randint(0, len(words)), option + chance.choice(values))
    return " ".join((name, *words))


def make_reading_project(folder: Path) -> tuple[Path, list[Path]]:
    """Make a project with traps in the folder, and odd repositories below it. The list has the folders in
    which lines are run."""
    (folder / "home").mkdir()
    root = make_project(folder)
    for name in ("z1", "z2", "HEAD:.env", "traps/inf", "traps/1", "traps/--pre=x", "made/a", "made/-o"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("b\na\na\n")
    (root / "pipes").mkdir()
    os.mkfifo(root / "fifo")
    os.mkfifo(root / "pipes/a")
    (root / "link-to-fifo").symlink_to("fifo")
    git(root, "tag", "v1")
    git(root, "branch", "other", "HEAD~1")
    (root / "docs/notes.md").write_text("changed\n")
    git(root, "stash", "push", "-q", "docs/notes.md")
    (root / "docs/notes.md").write_text("foo\nmore\n")
    os.utime(root / "src/a.py", (1, 1))
    return root, [root, root / "src", *(_odd_repositories(root))]


def _odd_repositories(root: Path) -> Iterator[Path]:
    evil = root / "evil"
    evil.write_text("#!/bin/sh\ntouch made-by-evil\ncat\n")
    evil.chmod(0o755)
    settings = f"[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {evil}\n[diff]\n\texternal = {evil}\n"

    def clone(name: str, *words: str) -> Path:
        place = root / "odd" / name
        git(root, "clone", "-q", *words, str(root), str(place))
        return place

    plain = clone("plain")
    yield plain
    yield plain / "src"
    yield (bare := clone("bare", "--bare"))
    (bare / "config").write_text(settings + "[core]\n\tbare = false\n\tworktree = .\n")
    split = root / "odd/split"
    split.mkdir()
    git(root, "clone", "-q", "--bare", str(root), str(split / "real"))
    (split / "real/config").write_text(settings)
    (split / "HEAD").write_text("ref: refs/heads/main\n")
    (split / "commondir").write_text("real\n")
    yield split
    for name, spoil in (
        ("empty", lambda place: _replace(place / ".git", "")),
        ("text", lambda place: _replace(place / ".git", "not a repository\n")),
        ("elsewhere", lambda place: _replace(place / ".git", f"gitdir: {bare}\n")),
        ("headless", lambda place: (place / ".git/HEAD").write_text("nothing\n")),
        ("monitored", lambda place: (place / ".git/config").write_text(settings)),
        ("common", lambda place: (place / ".git/commondir").write_text(f"{split}/real\n")),
        (
            "password",
            lambda place: git(place, "remote", "set-url", "origin", f"https://a:{KEY}@example.org/x"),
        ),
        ("submodule", lambda place: git(place, "clone", "-q", str(bare), "sub")),
        ("linked-log", lambda place: _link(place / ".git/logs/HEAD", root.parent / "outside/key")),
        ("linked-exclude", lambda place: _link(place / ".git/info/exclude", root.parent / "outside/key")),
        ("linked-rebase", lambda place: _link(place / ".git/rebase-merge", root.parent / "outside")),
        ("linked-modules", lambda place: _link(place / ".gitmodules", root.parent / "outside/key")),
        ("waiting", lambda place: os.mkfifo(place / "src/.gitignore")),
        ("hooked", lambda place: _link(place / ".git/hooks/post-index-change", evil)),
        ("moved", lambda place: _move(place / "docs", root.parent / "outside/docs")),
    ):
        place = clone(name)
        spoil(place)
        yield place
    worktree = root / "odd/worktree"
    git(root, "worktree", "add", "-q", "--detach", str(worktree))
    yield worktree


def _replace(place: Path, text: str) -> None:
    place.rename(place.with_name(".git-before"))
    if text:
        place.write_text(text)
    else:
        place.mkdir()


def _link(place: Path, target: Path) -> None:
    place.unlink(missing_ok=True)
    place.symlink_to(target)


def _move(place: Path, target: Path) -> None:
    place.rename(target)
    place.symlink_to(target)
