"""What a command line reads, from its text alone: no file, no process."""

from __future__ import annotations

import pytest

from flycore.model.enums import Risk
from flycore.policy.agent_commands.line_risk import objection_to_unread, path_outside
from flycore.policy.agent_commands.options import Objection
from flycore.policy.agent_commands.plan import Access, PathUse, is_simple_glob, plan_command
from flycore.policy.agent_commands.shell_words import NotUnderstood, read_command_line
from flycore.policy.agent_commands.table import Effect, command_table
from kits.tables import each_row


def uses(line: str) -> list[tuple[str, Access, str, bool]]:
    return [(use.path, use.access, use.folder, use.glob) for use in plan_command(line).paths]


def test_each_path_has_its_access_and_its_folder() -> None:
    assert uses("ls") == [(".", Access.LIST, "", False)]
    assert uses("cat a b/*") == [("a", Access.READ, "", False), ("b/*", Access.READ, "", True)]
    assert uses("diff a b") == [("a", Access.FILE, "", False), ("b", Access.FILE, "", False)]
    assert uses("grep -r x src") == [("src", Access.TREE, "", False)]
    assert uses("grep x src") == [("src", Access.READ, "", False)]
    assert uses("rg x") == [(".", Access.SEARCH, "", False)]
    assert uses("rg --hidden x") == [(".", Access.TREE, "", False)]
    assert uses("cd ./a && cd ./b && ls c") == [
        ("./a", Access.FOLDER, "", False),
        ("./b", Access.FOLDER, "./a", False),
        ("c", Access.LIST, "./a/./b", False),
    ]
    assert uses("echo hello") == uses("pwd") == []


def test_the_first_word_of_a_search_is_its_pattern_unless_an_option_gives_one() -> None:
    assert uses("grep /etc/passwd a") == [("a", Access.READ, "", False)]
    assert uses("grep -e x /etc/passwd")[0][0] == "/etc/passwd"
    assert uses("grep --regexp=x /etc/passwd")[0][0] == "/etc/passwd"
    assert uses("rg --files /etc") == [("/etc", Access.SEARCH, "", False)]
    assert uses("sed -n 1p a") == [("a", Access.READ, "", False)]


def test_git_works_in_a_folder_and_its_words_may_be_paths() -> None:
    plan = plan_command("git -C a diff HEAD:x -- ../y")
    assert plan.repositories == ("a",)
    assert PathUse(path="../y", access=Access.TRACKED, folder="a") in plan.paths
    assert plan.programs == ("git",)


def test_the_worst_objection_of_a_line_is_told() -> None:
    with pytest.raises(Objection, match="`rm` deletes") as found:
        plan_command("make && sort -o x y; rm z")
    assert found.value.effect.risk is Risk.HIGH


@each_row(
    ("glob", "simple"),
    [
        ("*.py", True),
        ("**/*.py", True),
        ("src/*.{ts,tsx}", True),
        ("!.env", True),
        ("*", False),
        ("**", False),
        (".env", False),
        ("*.pem", False),
        ("*.{py,env}", False),
        (".*", False),
        ("*.p?m", False),
        ("x.py", False),
    ],
)
def test_globs_that_fit_no_secret_file_are_known(glob: str, simple: bool) -> None:
    assert is_simple_glob(glob) is simple


@each_row(
    ("line", "risk"),
    [
        ("cat > x <<y", Risk.MEDIUM),
        ("echo x > out; rm y", Risk.HIGH),
        ("echo x > out && git push", Risk.HIGH),
        ("ls $(x)", Risk.HIGH),
        ("ls\nls", Risk.HIGH),
        ("l\u0455", Risk.HIGH),
    ],
)
def test_a_line_that_is_not_read_is_rated_by_its_words(line: str, risk: Risk) -> None:
    with pytest.raises(NotUnderstood) as problem:
        read_command_line(line)
    assert objection_to_unread(line, problem.value).effect.risk is risk


@each_row(
    ("line", "outside"),
    [
        ("make", ""),
        ("make -C src", ""),
        ("cp a /project/b", ""),
        ("cp a /tmp/b", "/tmp/b"),
        ("cp a ../../b", "../../b"),
        ("cp a ../b", ""),
        ("x > ~/b", "~/b"),
        ("x --out=/tmp/b", "/tmp/b"),
        ("x 2> /dev/null", ""),
        ("cp a /projector", "/projector"),
    ],
)
def test_words_that_leave_the_folder_are_found(line: str, outside: str) -> None:
    assert path_outside(line, "/project/sub", "/project") == outside


def test_the_table_is_one_of_sense() -> None:
    table = command_table()
    assert len(table.commands) > 40
    assert len(table.git) > 25
    for name, entry in {**table.commands, **table.git}.items():
        assert entry.looked, name
        given = {f"-{one}" for one in entry.short + entry.short_values + entry.short_optional}
        given |= {f"--{one}" for one in f"{entry.long} {entry.long_values} {entry.long_optional}".split()}
        assert not given & entry.refused.keys(), f"{name} has and refuses the same option"
        assert not set(entry.short) & set(entry.short_values), name
        assert name not in table.effects
    assert all(effect in Effect for effect, _ in table.effects.values())


def test_each_row_of_git_that_takes_a_format_is_checked() -> None:
    """For some placeholders git starts gpg."""
    for name, entry in command_table().git.items():
        options = {*entry.long_values.split(), *entry.long_optional.split()}
        assert not options & {"format", "pretty", "group"} or entry.check == "git-format", name


def test_both_readings_count_where_the_environment_decides() -> None:
    assert uses("sort a -k 2") == [
        ("a", Access.READ, "", False),
        ("a", Access.READ, "", False),
        ("-k", Access.READ, "", False),
        ("2", Access.READ, "", False),
    ]
    assert uses("sort -k 2 a") == [("a", Access.READ, "", False)]
    assert uses("rg x a -g '*.py'") == [("a", Access.SEARCH, "", False)]
    assert uses("command -v a -k") == []
