"""Findings about a call that a person should look at: pure tests on its input, and on earlier calls.

Each finding has a code, which `docs/approvals.md` explains. A finding decides nothing, and that there is none
proves nothing: an input can be written so that no test fits. Every test takes time linear in the input.
"""

from __future__ import annotations

import ipaddress
import os.path
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from flycore.model.approval import Attention, NamedPlaces, PastUse
from flycore.model.base import Value
from flycore.model.enums import AttentionCode
from flycore.model.json import Json, JsonObject, canonical_json
from flysafe.text import CLOSE, OPEN, safe_text, strict_text

MOST_TEXTS = 2_000
"""Texts of an input that are looked at."""
MOST_PLACES = 32
"""Hosts, and folders, of one call that are told apart."""
MOST_FINDINGS = 3
"""Findings of one kind that are told one by one."""
MOST_CHARACTERS = 200
"""Characters of one finding: the names in it come from the input."""
LEAST_UNUSUAL_BYTES = 256
"""A smaller input is never called unusually large."""
LONGEST_NAME = 255
COMMAND_FIELDS = frozenset({"command", "cmd", "commandline", "script", "argv", "args", "shell"})
"""Names of fields that hold a command line, or its words."""
PATH_FIELDS = frozenset(
    {
        *("path", "paths", "file", "files", "file_path", "filepath", "filename", "dest", "destination"),
        *("output", "target_path", "folder", "dir", "directory", "cwd"),
    }
)
"""Names of fields that hold paths, also relative ones."""
HOST_FIELDS = frozenset({"host", "hostname", "domain", "server"})
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh", "ash", "python", "python3", "perl", "node"})
_RAISES = frozenset({"sudo", "doas", "pkexec", "su"})
_STARTERS = frozenset({*_RAISES, "env", "nohup", "time", "exec", "command"})
_WORD = re.compile(r"\d?>>?&?|<\(|\$\(|[;|&()\n<`]+|\"[^\"]*\"|'[^']*'|[^\s;|&()<>\"'`]+")
_SEPARATOR = re.compile(r"[;|&()\n`]+|<\(|\$\(")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://([^/?#\s\"'<>\\]{1,600})")
_PORT = re.compile(r":\d{1,5}$")
_TOKEN = re.compile(f"{OPEN}U\\+[0-9A-F]+(?:×\\d+)?{CLOSE}")
_TYPES_KEYS = re.compile(r"(?:^|[._-])(?:keyboard|type|keys|send_keys|terminal)(?:$|[._-])")
_ENTER = re.compile(r"(?i)(?:^|[+\s])(?:return|enter|kp_enter)$")
_CREDENTIALS = (
    ("a bearer token", re.compile(r"(?i)\bbearer\s+[\w.~+/=-]{16,}")),
    ("a private key", re.compile(r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY")),
    ("an API key", re.compile(r"\b(?:sk|rk|pk)[-_](?:live|test|proj|ant|or)?[-_]?[A-Za-z0-9_-]{20,}")),
    ("a token of GitHub", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})")),
    ("a token of GitLab", re.compile(r"\bglpat-[\w-]{18,}")),
    ("a key of AWS", re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    ("a key of Google", re.compile(r"\bAIza[\w-]{35}")),
    ("a token of Slack", re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}")),
    ("a signed token", re.compile(r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}")),
    ("a password in an address", re.compile(r"://[^/?#\s@:]{1,200}:[^/?#\s@]{1,200}@")),
)


class AttentionFacts(Value, frozen=True, kw_only=True):
    """What the tests look at."""

    tool: str
    input: JsonObject
    app_root: str
    read_only: bool = False
    """Whether the kernel knows that the tool only reads."""
    seal: str = ""
    """The digest of the program's seal."""
    denied_today: int = 0
    past: PastUse = PastUse()


class InputText(Value, frozen=True, kw_only=True):
    """A text of the input, and what its field's name says about it."""

    where: str
    """The names of the fields that lead to it, with dots."""
    text: str
    command: bool
    path: bool
    host: bool


def attention(facts: AttentionFacts) -> tuple[Attention, ...]:
    """Return the findings, those first that are most seldom harmless."""
    texts = list(input_texts(facts.input))
    found = [
        *_characters(texts),
        *_commands(texts),
        *_enter(facts.tool, texts),
        *_credentials(texts),
        *_writes(facts, texts),
        *_hosts(texts),
        *_history(facts),
    ]
    kept: dict[AttentionCode, list[str]] = {code: [] for code in AttentionCode}
    for one in found:
        kept[one.code].append(one.text)
    return tuple(
        Attention(code=code, text=text)
        for code, texts in kept.items()
        for text in _bounded(dict.fromkeys(texts))
    )


def _bounded(texts: Collection[str]) -> Iterator[str]:
    """Yield the first findings of one kind, each within `MOST_CHARACTERS`, and how many more there are."""
    for text in list(texts)[:MOST_FINDINGS]:
        yield text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
    if len(texts) > MOST_FINDINGS:
        yield f"and {len(texts) - MOST_FINDINGS:,} more of this kind"


def named_places(input: JsonObject, app_root: str) -> NamedPlaces:
    """Return the hosts that the input names, and the folders outside the project."""
    texts = list(input_texts(input))
    hosts = dict.fromkeys(host[:LONGEST_NAME] for one in texts for host in _hosts_of(one))
    outside = dict.fromkeys(
        os.path.dirname(full)[:LONGEST_NAME]
        for one in texts
        for path in paths_of(one)
        if (full := _outside(path, app_root))
    )
    return NamedPlaces(hosts=tuple(hosts)[:MOST_PLACES], folders=tuple(outside)[:MOST_PLACES])


def input_texts(value: Json, where: tuple[str, ...] = ()) -> Iterator[InputText]:
    """Yield the texts of the input, each with its place, up to `MOST_TEXTS`."""
    left = MOST_TEXTS
    pending: list[tuple[Json, tuple[str, ...]]] = [(value, where)]
    while pending and left > 0:
        one, place = pending.pop()
        if isinstance(one, dict):
            pending += [(item, (*place, key)) for key, item in reversed(one.items())]
        elif isinstance(one, list):
            if place and place[-1].lower() in COMMAND_FIELDS and all(isinstance(item, str) for item in one):
                one = " ".join(f"'{item}'" if " " in item else item for item in one if isinstance(item, str))
            else:
                pending += [(item, place) for item in reversed(one)]
        if isinstance(one, str):
            left -= 1
            name = place[-1].lower() if place else ""
            yield InputText(
                where=".".join(place) or "input",
                text=one,
                command=name in COMMAND_FIELDS,
                path=name in PATH_FIELDS,
                host=name in HOST_FIELDS,
            )


def _characters(texts: list[InputText]) -> Iterator[Attention]:
    for one in texts:
        text = re.sub("[\n\r\t]", "", one.text)
        if text.isascii() and text.isprintable():
            continue
        hidden = len(_TOKEN.findall(safe_text(text))) - text.count(OPEN)
        alike = len(_TOKEN.findall(strict_text(text))) - hidden - text.count(OPEN)
        if hidden > 0:
            what = "1 invisible character" if hidden == 1 else f"{hidden:,} invisible characters"
            yield Attention(code=AttentionCode.HIDDEN_CHARACTERS, text=f"{what} in {one.where}")
        if alike > 0:
            what = "1 look-alike" if alike == 1 else f"{alike:,} look-alikes"
            yield Attention(code=AttentionCode.LOOK_ALIKES, text=f"{what} of other letters in {one.where}")


def _commands(texts: list[InputText]) -> Iterator[Attention]:
    found: dict[AttentionCode, str] = {}
    for one in texts:
        if one.command:
            for code, words in _command_findings(one.text):
                found.setdefault(code, words)
    yield from (Attention(code=code, text=words) for code, words in found.items())


def _command_findings(command: str) -> Iterator[tuple[AttentionCode, str]]:
    """Yield what the words of a command line do. One pass, with the command that is being read as state."""
    program = ""
    before = ""
    for word in _words(command):
        if _SEPARATOR.fullmatch(word):
            # What runs in `$(…)` or `<(…)` is handed to a shell that stands before it.
            if word in ("$(", "<(") and program in _SHELLS:
                yield AttentionCode.PIPE_TO_SHELL, f"what another command prints is run by {program}"
            program, before = "", word
            continue
        name = os.path.basename(word)
        if not program:
            if name in _RAISES:
                yield AttentionCode.SUDO, f"runs with other rights: {name}"
            if name in _STARTERS or word.startswith("-") or "=" in word:
                continue
            program = name
            if "|" in before and before != "||" and name in _SHELLS:
                yield AttentionCode.PIPE_TO_SHELL, f"a pipe into {name}"
            continue
        yield from _argument_findings(program, word)


def _argument_findings(program: str, word: str) -> Iterator[tuple[AttentionCode, str]]:
    short = word.startswith("-") and not word.startswith("--")
    recursive = word == "--recursive" or (short and ("r" in word or "R" in word))
    if (program == "rm" and recursive) or (program == "find" and word == "-delete"):
        yield AttentionCode.RECURSIVE_DELETE, f"deletes a folder with all that is in it: {program} {word}"
    elif program == "git" and word == "clean":
        yield AttentionCode.RECURSIVE_DELETE, "deletes every file that git does not know: git clean"


def _words(command: str) -> Iterator[str]:
    for found in _WORD.finditer(command):
        word = found[0]
        yield word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'" else word


def _enter(tool: str, texts: list[InputText]) -> Iterator[Attention]:
    if not _TYPES_KEYS.search(tool):
        return
    for one in texts:
        name = one.where.rpartition(".")[2]
        typed = name in ("text", "value", "input") and one.text.endswith(("\n", "\r"))
        if typed or (name in ("keys", "key") and _ENTER.search(one.text)):
            yield Attention(code=AttentionCode.PRESSES_ENTER, text=f"the end of {one.where} presses Enter")


def _credentials(texts: list[InputText]) -> Iterator[Attention]:
    for one in texts:
        # One finding for a field: a token in a header is a bearer token, and has its maker's form as well.
        what = next((words for words, shape in _CREDENTIALS if shape.search(one.text)), "")
        if what:
            yield Attention(code=AttentionCode.CREDENTIAL, text=f"carries {what} ({one.where})")


def _writes(facts: AttentionFacts, texts: list[InputText]) -> Iterator[Attention]:
    if facts.read_only:
        return
    outside: dict[str, None] = {}
    dotted: dict[str, None] = {}
    for one in texts:
        paths = _redirected(one.text) if one.command else paths_of(one)
        for path in paths:
            if _outside(path, facts.app_root):
                outside[path] = None
            elif _dotted(path):
                dotted[path] = None
    if outside:
        yield Attention(code=AttentionCode.WRITES_OUTSIDE, text=f"outside this folder: {_named(outside)}")
    if dotted:
        yield Attention(code=AttentionCode.DOT_FILE, text=f"a hidden file or folder: {_named(dotted)}")


def _redirected(command: str) -> Iterator[str]:
    """Yield the files that a command line writes by redirection."""
    before = ""
    for word in _words(command):
        written = ">" in before and not before.endswith("&") and not _SEPARATOR.fullmatch(word)
        if written and word != "/dev/null":
            yield word
        before = word


def _hosts(texts: list[InputText]) -> Iterator[Attention]:
    for host in dict.fromkeys(host for one in texts for host in _hosts_of(one)):
        if any(part.startswith("xn--") for part in host.split(".")) or not host.isascii():
            yield Attention(code=AttentionCode.PUNYCODE, text=f"a host that may look like another: {host}")
        elif _is_address(host):
            yield Attention(code=AttentionCode.RAW_ADDRESS, text=f"an address in place of a name: {host}")


def _history(facts: AttentionFacts) -> Iterator[Attention]:
    past, size = facts.past, len(canonical_json(facts.input))
    for host in past.new_hosts:
        yield Attention(code=AttentionCode.NEW_HOST, text=f"first call to {host} from here")
    for folder in past.new_folders:
        yield Attention(code=AttentionCode.NEW_PATH, text=f"first use of {folder} from here")
    if facts.denied_today:
        times = "once" if facts.denied_today == 1 else f"{facts.denied_today} times"
        yield Attention(code=AttentionCode.DENIED_TODAY, text=f"denied {times} today")
    if past.approved_seal and facts.seal and past.approved_seal != facts.seal:
        words = "the program changed since it was last approved"
        yield Attention(code=AttentionCode.PROGRAM_CHANGED, text=words)
    if past.usual_bytes and size > max(2 * past.usual_bytes, LEAST_UNUSUAL_BYTES):
        words = f"{size:,} bytes, usually {past.usual_bytes:,}"
        yield Attention(code=AttentionCode.UNUSUAL_SIZE, text=words)


def _hosts_of(one: InputText) -> Iterator[str]:
    """Yield the hosts of a text that is an address as a whole, or a command line that has some."""
    whole = _URL.match(one.text.strip()) is not None and not re.search(r"\s", one.text.strip())
    if whole or one.command:
        for found in _URL.finditer(one.text):
            host = found[1].rpartition("@")[2].lower()
            yield _PORT.sub("", host).strip("[]")
    elif one.host and one.text:
        yield _PORT.sub("", one.text.lower()).strip("[]") if one.text.count(":") == 1 else one.text.lower()


def paths_of(one: InputText) -> Iterator[str]:
    """Yield the paths that a text names."""
    if one.command:
        yield from (word for word in _words(one.text) if _is_path(word))
    elif one.path or _is_path(one.text):
        yield one.text


def _is_path(text: str) -> bool:
    """Return whether a text that no field's name calls a path is one that leads out of a folder."""
    if "\n" in text or len(text) > 4096 or text.startswith("//"):
        return False
    return text.startswith(("/", "~/")) or text == ".." or "../" in text


def _outside(path: str, app_root: str) -> str:
    """Return the path in full where it lies outside the project by its name; empty where it does not."""
    if "://" in path or not path:
        return ""
    if path.startswith("~"):
        return os.path.normpath(path)
    full = os.path.normpath(os.path.join(app_root, path))
    return "" if Path(full).is_relative_to(app_root) else full


def _dotted(path: str) -> bool:
    return any(part.startswith(".") and part not in (".", "..") for part in path.split("/"))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _named(paths: dict[str, None]) -> str:
    first, *rest = paths
    return f"{first} and {len(rest)} more" if rest else first
