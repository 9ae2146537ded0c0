"""Programs that start another one: `env`, `timeout`, `nice`, `xargs`, `setsid`, `stdbuf`, `nohup`, `sudo` and
`time`.

The seal of such a command is that of the program it starts. An option that is not in the table below may
change what is started, so such a command is not looked through.
"""

from __future__ import annotations

import re

import msgspec

DEEPEST = 8
"""How many wrappers in a row are looked through."""
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_NICE = re.compile(r"-\d+|--?\d+")


class _Form(msgspec.Struct, frozen=True, kw_only=True):
    """The command line of a wrapper."""

    flags: frozenset[str] = frozenset()
    """Options without a value."""
    values: frozenset[str] = frozenset()
    """Options with a value, which follows as the next word, after `=`, or after a short option's letter."""
    operands: int = 0
    """How many words come between the options and the command."""
    assigns: bool = False
    """Whether `NAME=VALUE` may come before the command."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FORMS = {
    "env": _Form(
        flags=_words("- -i -v -0 --ignore-environment --debug --null"),
        values=_words("-u --unset"),
        assigns=True,
    ),
    "timeout": _Form(
        flags=_words("-f -p -v --foreground --preserve-status --verbose"),
        values=_words("-k -s --kill-after --signal"),
        operands=1,
    ),
    "nice": _Form(values=_words("-n --adjustment")),
    "ionice": _Form(flags=_words("-t --ignore"), values=_words("-c -n --class --classdata")),
    "xargs": _Form(
        flags=_words("-0 -r -t -x --null --no-run-if-empty --verbose --exit"),
        values=_words(
            "-n -P -I -L -s -d -E --max-args --max-procs --replace --max-lines --max-chars --delimiter"
        ),
    ),
    "setsid": _Form(flags=_words("-c -f -w --ctty --fork --wait")),
    "stdbuf": _Form(values=_words("-i -o -e --input --output --error")),
    "nohup": _Form(),
    "sudo": _Form(
        flags=_words("-n -k -H --non-interactive --reset-timestamp --set-home"),
        values=_words("-u -g --user --group"),
        assigns=True,
    ),
    "time": _Form(
        flags=_words("-p -v -q -a --portability --verbose --quiet --append"),
        values=_words("-f -o --format --output"),
    ),
}


class Started(msgspec.Struct, frozen=True):
    """What a wrapper starts. `why_not` says why that cannot be told; then the rest is empty."""

    before: tuple[str, ...] = ()
    """The words of the wrapper, its own name first."""
    argv: tuple[str, ...] = ()
    """The command that it starts."""
    assigned: tuple[tuple[str, str], ...] = ()
    """The variables that it sets."""
    why_not: str = ""


def is_wrapper(name: str) -> bool:
    """Whether a program of that name starts the command that its arguments name."""
    return name in _FORMS


def look_through(name: str, argv: tuple[str, ...]) -> Started:
    """What the wrapper `name` starts, by its whole command line."""
    form, words = _FORMS[name], list(argv[1:])
    at, assigned = _after_options(name, form, words), []
    if isinstance(at, str):
        return Started(why_not=f"{name} is given {at}, which flytui does not look through")
    at += form.operands
    while form.assigns and at < len(words) and _ASSIGNMENT.match(words[at]):
        variable, _, value = words[at].partition("=")
        assigned.append((variable, value))
        at += 1
    if at >= len(words):
        return Started(why_not=f"{name} is not told which program to start")
    return Started(argv[: at + 1], tuple(words[at:]), tuple(assigned))


def _after_options(name: str, form: _Form, words: list[str]) -> int | str:
    """The index of the first word after the options, or the option that is not known."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        if word == "--":
            return at + 1
        known, _, given = word.partition("=")
        if word in form.flags or (name == "nice" and _NICE.fullmatch(word)):
            at += 1
        elif word in form.values:
            at += 2
        elif (word.startswith("--") and known in form.values and given) or (
            not word.startswith("--") and word[:2] in form.values
        ):
            at += 1
        else:
            return word
    return at
