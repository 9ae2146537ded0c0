"""The command lines of the kernel's own git tools, which only read: pure functions.

A repository's own settings can start programs: for differences, for the state of files, for pages, for
signatures, for filters of file contents. All of these are off. Sources: git-config(1), gitattributes(5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flycore.model.json import JsonObject

STATUS, DIFF, LOG, SHOW = "git.status", "git.diff", "git.log", "git.show"
GIT_TOOLS = frozenset((STATUS, DIFF, LOG, SHOW))

_OFF = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.pager": "cat",
    "core.sshCommand": "false",
    "core.askPass": "",
    "core.quotePath": "true",
    "color.ui": "never",
    "credential.helper": "",
    "diff.external": "",
    "diff.ignoreSubmodules": "all",
    "log.showSignature": "false",
    "protocol.allow": "never",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
}
"""Settings that start a program, or read outside the project, with a value that does neither."""
FILTER_KEYS = r"^filter\..*\.(clean|smudge|process|required)$"
_HEAD = ("--no-pager", "--no-optional-locks", "--git-dir=.git", "--work-tree=.")


def git_environment(environment: Mapping[str, str], filters: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment of git. `filters` are the repository's settings of filters, which are switched
    off by name, because no wildcard does."""
    pairs = {**_OFF, **{key: "false" if key.endswith(".required") else "" for key in filters}}
    numbered = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs.items()):
        numbered |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return {
        **environment,
        **numbered,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
        "GIT_DISCOVERY_ACROSS_FILESYSTEM": "0",
    }


def filter_query(program: str) -> tuple[str, ...]:
    """Return the command line that names the repository's settings of filters, each followed by NUL."""
    return (program, *_HEAD, "config", "--includes", "--null", "--name-only", "--get-regexp", FILTER_KEYS)


def git_argv(program: str, tool: str, input: JsonObject) -> tuple[str, ...]:
    """Return the command line of a call with a validated input."""
    return (program, *_HEAD, *_words(tool, input))


def _words(tool: str, input: JsonObject) -> tuple[str, ...]:
    no_programs = ("--no-ext-diff", "--no-textconv")
    path = str(input["path"]) if "path" in input else ""
    # `--end-of-options` and `--`: no value can be taken for an option or for another kind of value.
    behind = ("--", f"./{path}") if path else ("--",)
    match tool:
        case "git.status":
            return ("status", "--short", "--branch", "--untracked-files=all", "--ignore-submodules=all")
        case "git.diff":
            known = {"from": "HEAD", **input} if "to" in input else input
            commits = [str(known[key]) for key in ("from", "to") if key in known]
            options = ("--staged",) if input.get("staged") is True else ()
            options = (*options, "--stat") if input.get("stat") is True else options
            submodules = ("--ignore-submodules=all",)
            return ("diff", *no_programs, *submodules, *options, "--end-of-options", *commits, *behind)
        case "git.log":
            count = input.get("count", 20)
            rev = str(input.get("rev", "HEAD"))
            form = "--date=iso-strict"
            return ("log", *no_programs, form, f"--max-count={count}", "--end-of-options", rev, *behind)
        case _:
            rev = str(input["rev"])
            if path:
                return ("show", *no_programs, "--end-of-options", f"{rev}:./{path}", "--")
            return ("show", *no_programs, "--date=iso-strict", "--end-of-options", rev, "--")
