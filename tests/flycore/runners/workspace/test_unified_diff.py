"""Unified diffs, against the diffs that diff and git write, and against damaged ones."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from flycore.runners.workspace.text_changes import ChangeDoesNotFit
from flycore.runners.workspace.unified_diff import BadPatch, apply_hunks, parse_patch
from kits.tables import each_row

PAIRS = 1_000 if os.environ.get("FLYTUI_SUITES") == "full" else 60


def lines_of(numbers: random.Random, count: int) -> list[str]:
    return [
        numbers.choice(("", "a", "b", "a b", "é", "--- a", "+++ b", "@@ x", "\\ y")) for _ in range(count)
    ]


def joined(numbers: random.Random, lines: list[str]) -> str:
    return "\n".join(lines) + ("\n" if lines and numbers.random() < 0.7 else "")


def two_texts(numbers: random.Random) -> tuple[str, str]:
    before = lines_of(numbers, numbers.randint(0, 25))
    after = list(before)
    for _ in range(numbers.randint(1, 5)):
        at = numbers.randint(0, len(after))
        if numbers.random() < 0.5 and at < len(after):
            del after[at]
        else:
            after[at:at] = lines_of(numbers, numbers.randint(1, 3))
    return joined(numbers, before), joined(numbers, after)


def test_applies_what_diff_writes(tmp_path: Path) -> None:
    numbers = random.Random(7)
    done = 0
    while done < PAIRS:
        before, after = two_texts(numbers)
        # Of an empty file diff -u names no side /dev/null.
        if before == after or not before or not after:
            continue
        (tmp_path / "old").write_text(before)
        (tmp_path / "new").write_text(after)
        around = str(numbers.randint(0, 3))
        written = subprocess.run(
            ["diff", "-U", around, "--label", "a/file", "--label", "b/file", "old", "new"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        (patch,) = parse_patch(written)
        assert apply_hunks(before, patch) == after, written
        done += 1


def test_reads_what_git_writes(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        run = subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@y", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        return run.stdout

    git("init", "-q")
    (tmp_path / "stays ä.txt").write_text("one\ntwo\n")
    (tmp_path / "goes.txt").write_text("old\n")
    git("add", ".")
    git("commit", "-qm", "first")
    (tmp_path / "stays ä.txt").write_text("one\n2\n")
    (tmp_path / "goes.txt").unlink()
    (tmp_path / "comes.txt").write_text("new")
    git("add", ".")
    patches = {patch.path: patch for patch in parse_patch(git("diff", "--cached"))}
    assert sorted(patches) == ["comes.txt", "goes.txt", "stays ä.txt"]
    assert apply_hunks("one\ntwo\n", patches["stays ä.txt"]) == "one\n2\n"
    assert (patches["comes.txt"].creates, patches["goes.txt"].deletes) == (True, True)
    assert patches["comes.txt"].hunks[0].new == ("new",)


CHANGE = "--- a/f\n+++ b/f\n@@ -2 +2 @@\n-two\n+zwei\n"


def test_a_hunk_is_found_at_the_one_other_place() -> None:
    (patch,) = parse_patch(CHANGE)
    assert apply_hunks("zero\none\ntwo\n", patch) == "zero\none\nzwei\n"


@pytest.mark.parametrize("text", ["", "one\n2\n", "zero\none\ntwo\ntwo\nend\n", "one\ntwo"])
def test_a_hunk_that_fits_nowhere_or_twice_is_refused(text: str) -> None:
    (patch,) = parse_patch(CHANGE)
    with pytest.raises(ChangeDoesNotFit):
        apply_hunks(text, patch)


@each_row(
    "text",
    [
        "",
        "no patch\n",
        "--- a/f\n+++ b/f\n",
        "@@ -1 +1 @@\n-a\n+b\n",
        "--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n-a\n+b\n",
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n*b\n",
        "--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
        "--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n",
        "--- /dev/null\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
        "--- a/f\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n",
        "diff --git a/f b/g\nrename from f\nrename to g\n",
        "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n",
        "diff --git a/f b/f\nGIT binary patch\n",
        CHANGE + CHANGE,
    ],
)
def test_a_damaged_or_unsupported_patch_is_refused(text: str) -> None:
    with pytest.raises(BadPatch):
        parse_patch(text)
