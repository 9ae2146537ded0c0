"""Says which files a command line reads, where it is made of commands that only read.

The plan is made of the text alone. Whether its paths lie in the project folder, and whether a repository's
own settings start programs, is looked at by whoever has the files.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from decimal import Decimal
from enum import StrEnum

from flycore.model.base import Value
from flycore.policy.agent_commands.options import Arguments, Objection, read_arguments
from flycore.policy.agent_commands.secret_files import could_name_secret, secret_part
from flycore.policy.agent_commands.shell_words import SimpleCommand, Word, read_command_line
from flycore.policy.agent_commands.table import CommandEntry, Effect, Operands, command_table


class Access(StrEnum):
    """What is done with a path."""

    LIST = "list"
    """Names and facts are shown."""
    READ = "read"
    """The content of the file is shown."""
    FILE = "file"
    """The content of the file is shown, and it may not be a folder."""
    TREE = "tree"
    """The content of every file below may be shown."""
    SEARCH = "search"
    """The content of the file is shown; in a folder, that of visible files that the rules in its ignore files
    leave."""
    TREE_UNIGNORED = "tree-unignored"
    """The content of every file below may be shown, but for those that git ignores."""
    TRACKED = "tracked"
    """As `READ`, and where git takes the word for a path, it has to lie in the repository: git compares two
    files that lie outside as if it knew no repository."""
    FOLDER = "folder"
    """Commands work in the folder."""
    NOTHING = "nothing"
    """No file may have that name: the word is a pattern that is to be left as it is."""


class PathUse(Value, frozen=True, kw_only=True):
    """A path that a command uses."""

    path: str
    access: Access
    folder: str = ""
    """The folder that a relative path starts at, as it is written after `cd`; empty for the agent's own."""
    glob: bool = False
    """Whether the shell replaces the path by those that fit it."""


class ReadPlan(Value, frozen=True, kw_only=True):
    """What a call of an agent reads."""

    commands: tuple[str, ...]
    """The commands, each in one or two words, such as `git status`."""
    paths: tuple[PathUse, ...] = ()
    repositories: tuple[str, ...] = ()
    """Folders, written as in `PathUse.folder`, in which git works."""
    addresses: tuple[str, ...] = ()
    """Those of them in which addresses are shown, which may hold a password."""
    programs: tuple[str, ...] = ()
    """The names that the shell looks up as programs."""


def plan_command(text: str) -> ReadPlan:
    """Return what a command line reads. Raises Objection, and NotUnderstood."""
    commands = read_command_line(text)
    planner = _Planner()
    objections: list[Objection] = []
    for at, command in enumerate(commands):
        try:
            following = commands[at + 1].connector if at + 1 < len(commands) else ""
            planner.add(command, following)
        except Objection as objection:
            objections.append(objection)
    if objections:
        # The person is told of the worst one.
        raise max(objections, key=lambda one: one.effect.risk.rank)
    return ReadPlan(
        commands=tuple(planner.labels),
        paths=tuple(planner.paths),
        repositories=tuple(dict.fromkeys(planner.repositories)),
        addresses=tuple(dict.fromkeys(planner.addresses)),
        programs=tuple(dict.fromkeys(planner.programs)),
    )


class _Planner:
    """Collects what the commands of one line read."""

    def __init__(self) -> None:
        self.labels: list[str] = []
        self.paths: list[PathUse] = []
        self.repositories: list[str] = []
        self.addresses: list[str] = []
        self.programs: list[str] = []
        self._folder = ""
        self._moved = False
        self._only_cd = True
        self._piped = False

    def add(self, command: SimpleCommand, following: str) -> None:
        """Add one command. Raises Objection."""
        if command.words[0].glob:
            raise Objection("the command's name is a pattern", Effect.RUNS)
        if self._moved and command.connector in ("||", ";"):
            # It would also run where `cd` had failed, in the folder before.
            raise Objection(f"`{command.connector}` after `cd` may run it in either folder")
        if command.name == "cd":
            self._change_folder(command, following)
            return
        self._only_cd = False
        self._piped = command.connector == "|"
        self.programs.append(command.name)
        if command.name == "git":
            self._git(command)
            return
        entry = command_table().commands.get(command.name)
        if entry is None:
            raise unknown_command(command)
        self.labels.append(command.name)
        self._use(command.name, entry, command.words[1:])

    def _change_folder(self, command: SimpleCommand, following: str) -> None:
        if not self._only_cd or following != "&&" or len(command.words) != 2:
            raise Objection("`cd` is read only at the beginning, with one folder and `&&` behind it")
        target = command.words[1]
        sure = target.text.startswith(("/", "./", "../")) or target.text in (".", "..")
        if target.glob or not sure:
            raise Objection(
                "`cd` to a folder that begins neither with `/` nor with `./` may go elsewhere (CDPATH)"
            )
        self._path(target.text, Access.FOLDER)
        self._folder = posixpath.join(self._folder, target.text)
        self._moved = True

    def _path(self, path: str, access: Access, *, glob: bool = False) -> None:
        self.paths.append(PathUse(path=path, access=access, folder=self._folder, glob=glob))

    def _use(self, label: str, entry: CommandEntry, words: tuple[Word, ...]) -> None:
        """Add the paths of a command with an entry in the table."""
        if entry.check == "echo":
            self._texts(words)
            return
        if entry.check == "find":
            self._find(words)
            return
        for word in words:
            if word.glob and word.text.startswith("--"):
                self._path(word.text, Access.NOTHING, glob=True)
        for given in read_arguments(label, entry, words):
            self._arguments(label, entry, given)

    def _arguments(self, label: str, entry: CommandEntry, given: Arguments) -> None:
        """Add the paths of one way to read the arguments."""
        if entry.require and not given.has(*entry.require):
            raise Objection(f"`{label}` only reads with {' or '.join(entry.require)}", Effect.RUNS)
        operands = given.operands
        if entry.most is not None and (len(operands) > entry.most or any(word.glob for word in operands)):
            raise Objection(f"`{label}` may write the file that is named last", Effect.WRITES)
        if operands and entry.operands_with and not given.has(*entry.operands_with):
            raise Objection(f"`{label}` with a name makes or changes it")
        if operands and entry.operands is Operands.NONE:
            raise Objection(f"`{label}` with {operands[0].text!r} is not known to only read")
        if given.has(*entry.addresses) or "*" in entry.addresses:
            self.addresses.append(self._folder)
        _CHECKS[entry.check](given)
        self._operands(label, entry, given)

    def _operands(self, label: str, entry: CommandEntry, given: Arguments) -> None:
        if len(given.operands) < entry.input_below:
            self._input(label, entry)
        match entry.operands:
            case Operands.NONE | Operands.TEXT:
                self._texts(given.operands)
            case Operands.REVISION | Operands.PATTERN_REVISION:
                rest = self._without_pattern(entry, given)
                self._revisions(rest, given)
            case _:
                rest = self._without_pattern(entry, given)
                access = _access(label, entry, given)
                for word in rest:
                    if word.text == "-":
                        self._input(label, entry)
                    else:
                        self._path(word.text, access, glob=word.glob)
                if rest:
                    return
                if entry.here or access is Access.TREE:
                    self._path(".", access)
                elif access is not Access.LIST and not _reads_nothing(label, given):
                    self._input(label, entry)

    def _input(self, label: str, entry: CommandEntry) -> None:
        """Raise Objection where the standard input is not what another command of the line prints."""
        if not self._piped:
            raise Objection(f"`{label}` reads its standard input, which may never end", Effect.WAITS)
        if entry.no_pipe:
            raise Objection(f"`{label}` writes a temporary file for what it is piped", Effect.WRITES)

    def _without_pattern(self, entry: CommandEntry, given: Arguments) -> tuple[Word, ...]:
        """The operands without the pattern that is the first of them."""
        takes = entry.operands in (Operands.PATTERN_READ, Operands.PATTERN_REVISION)
        if not takes or given.has(*entry.pattern_options, *entry.no_pattern):
            return given.operands
        if not given.operands:
            raise Objection("there is no pattern")
        if given.operands[0].glob:
            raise Objection("the pattern has no quotes, so that the shell may replace it by names of files")
        return given.operands[1:]

    def _texts(self, words: tuple[Word, ...]) -> None:
        for word in words:
            if word.glob:
                self._path(word.text, Access.LIST, glob=True)

    def _revisions(self, words: tuple[Word, ...], given: Arguments) -> None:
        """Add words of git, each of which may be a revision, a path, or both with a colon between."""
        for word in words:
            before, colon, behind = word.text.partition(":")
            self._path(before if colon and before else word.text, Access.TRACKED, glob=word.glob)
            base = word.text.partition("~")[0].partition("^")[0]
            if part := secret_part(behind if colon else base):
                raise Objection(f"{part!r} usually holds secrets", Effect.SECRETS)
        for option in given.options:
            # Where a version of git takes no value for an option, the word would be a path.
            if option.separate and option.name not in _GIT_TEXTS:
                self._path(option.value, Access.TRACKED)
        for value in given.values("-L"):
            if (place := value.rpartition(":")[2]) and ":" in value:
                self._path(place, Access.TRACKED)

    def _git(self, command: SimpleCommand) -> None:
        words = list(command.words[1:])
        table, folder = command_table(), self._folder
        while words and words[0].text.startswith("-"):
            option = words.pop(0).text
            if option == "-C" and words and not words[0].glob:
                target = words.pop(0).text
                self._path(target, Access.FOLDER)
                self._folder = posixpath.join(self._folder, target)
            elif option == "--version" and not words:
                words = [Word("version")]
            elif option not in ("--no-pager", "--no-optional-locks", "--literal-pathspecs"):
                raise Objection(f"`git {option}` may change what git starts or where it works", Effect.STARTS)
        try:
            names = [word.text for word in words[:2]]
            label = next((one for one in (" ".join(names), *names[:1]) if one in table.git), "")
            if not label:
                known = table.subcommands["git"].get(names[0] if names else "")
                why = f"`git {' '.join(names[:1])}`"
                raise (
                    Objection(f"{why} {known[1]}", known[0])
                    if known
                    else Objection(f"{why} is no command of git that flytui knows to only read")
                )
            self.labels.append(f"git {label}")
            self.repositories.append(self._folder)
            self._use(f"git {label}", table.git[label], tuple(words[len(label.split()) :]))
        finally:
            self._folder = folder

    def _find(self, words: tuple[Word, ...]) -> None:
        starts = 0
        while starts < len(words) and not words[starts].text.startswith(("-", "(", "!", ",", ")")):
            self._path(words[starts].text, Access.LIST, glob=words[starts].glob)
            starts += 1
        if not starts:
            self._path(".", Access.LIST)
        rest = iter(words[starts:])
        refused, find = command_table().commands["find"].refused, command_table().find
        for word in rest:
            if word.glob:
                raise Objection(
                    "a word of `find` has no quotes, so that the shell may replace it by names of files"
                )
            if word.text in find.tests or word.text in ("(", ")"):
                continue
            if word.text in refused:
                raise Objection(f"`find {word.text}` {refused[word.text][1]}", refused[word.text][0])
            if word.text not in find.values and word.text not in find.paths:
                raise Objection(f"`find {word.text}` is not known to only read")
            value = next(rest, None)
            if value is None or value.glob:
                raise Objection(f"`find {word.text}` has no quoted value")
            if word.text in find.paths:
                self._path(value.text, Access.LIST)


def _access(label: str, entry: CommandEntry, given: Arguments) -> Access:
    if entry.operands is Operands.LIST:
        return Access.LIST
    if entry.operands is Operands.FILE:
        return Access.FILE
    if label == "rg":
        if given.has("--files", "--type-list"):
            return Access.SEARCH
        return Access.TREE if _rg_reads_hidden(given) else Access.SEARCH
    return Access.TREE if given.has(*entry.tree) else Access.READ


_GIT_TEXTS = frozenset(
    ("-S", "-G", "-e", "--grep", "--author", "--committer", "--since", "--until", "--after", "--before")
)
"""Options of git whose value may look like a path, and which always have one."""


def _reads_nothing(label: str, given: Arguments) -> bool:
    """Whether the command reads nothing at all, not even its standard input."""
    return label == "jq" and given.has("-n", "--null-input") and "input" not in given.operands[0].text


_UNHIDDEN = ("--hidden", "-.", "-u", "--unrestricted", "--no-ignore", "--no-ignore-vcs")


def _rg_reads_hidden(given: Arguments) -> bool:
    if given.has(*_UNHIDDEN) or not all(is_simple_type(kind) for kind in given.values("-t", "--type")):
        return True
    # A glob that fits counts more than the rules for hidden and ignored files.
    return not all(is_simple_glob(glob) for glob in given.values("-g", "--glob", "--iglob"))


def is_simple_type(kind: str) -> bool:
    """Return whether no file of a secret name is of this type of ripgrep."""
    return kind in command_table().simple_types


def is_simple_glob(glob: str) -> bool:
    """Return whether a glob of ripgrep fits no file of a secret name."""
    if glob.startswith("!"):
        return True
    stem, dot, ending = glob.rpartition("/")[2].partition(".")
    endings = ending[1:-1].split(",") if ending.startswith("{") and ending.endswith("}") else [ending]
    return stem == "*" and bool(dot) and all(one.isalnum() and not could_name_secret(one) for one in endings)


def unknown_command(command: SimpleCommand) -> Objection:
    """Return the objection to a command that is not in the table of those that only read."""
    table, name = command_table(), command.name
    if "=" in name:
        return Objection(f"{name!r} sets a variable, which may change what runs", Effect.STARTS)
    if "/" in name:
        return Objection(f"{name!r} names a program by its path, which may be any program", Effect.RUNS)
    word = next((word.text for word in command.words[1:] if not word.text.startswith("-")), "")
    known = table.subcommands.get(name, {}).get(word)
    if known is not None:
        return Objection(f"`{name} {word}` {known[1]}", known[0])
    if name in table.effects:
        effect, does = table.effects[name]
        return Objection(f"`{name}` {does}", effect)
    return Objection(f"`{name}` is no command that flytui knows to only read")


def _check_nothing(given: Arguments) -> None:
    """The table says everything."""


def _check_date(given: Arguments) -> None:
    if len(given.operands) > 1 or not all(word.text.startswith("+") for word in given.operands):
        raise Objection("`date` with a word sets the clock", Effect.ESCALATES)


_SIGNATURE = re.compile(r"%[-+ ]*G|signature")
"""The placeholders for which git starts gpg: `%G?` and its sisters, between which and the percent sign there
may be a plus, a minus or a blank (git-log(1), PRETTY FORMATS), and `%(signature)` (git-for-each-ref(1))."""


def _check_format(given: Arguments) -> None:
    if any(_SIGNATURE.search(value) for value in given.values("--format", "--pretty", "--sort", "--group")):
        raise Objection("the format asks for signatures, for which git starts gpg", Effect.STARTS)


MOST_NUMBERS = 1_000_000
_NUMBER = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,9})?")


def _check_seq(given: Arguments) -> None:
    texts = [word.text for word in given.operands]
    if any(word.glob for word in given.operands) or not all(_NUMBER.fullmatch(text) for text in texts):
        raise Objection("`seq` may never end: it is given more than plain numbers", Effect.WAITS)
    numbers = [Decimal(text) for text in texts]
    first = numbers[0] if len(numbers) > 1 else Decimal(1)
    step = numbers[1] if len(numbers) > 2 else Decimal(1)
    if numbers and (not step or (numbers[-1] - first) / step > MOST_NUMBERS):
        raise Objection(f"`seq` would print more than {MOST_NUMBERS:,} numbers", Effect.WAITS)


def _check_sed(given: Arguments) -> None:
    scripts = list(given.values("-e", "--expression")) or [word.text for word in given.operands[:1]]
    if not all(_prints_only(script) for script in scripts):
        raise Objection(
            "the script of `sed` is more than printing by numbers or one replacement", Effect.WRITES
        )


def _prints_only(script: str) -> bool:
    """Whether a script of sed is made of `p`, `d`, `q` and `=` with numbers, or is one `s` command whose
    flags neither write nor start anything."""
    if script[:1] == "s" and script[1:2] in tuple("/|,#:@"):
        delimiter = script[1]
        # Exactly three, none behind a backslash: programs differ in whether one in brackets counts.
        parts = script.split(delimiter)
        return (
            len(parts) == 4
            and "\\" + delimiter not in script
            and "\n" not in script
            and all(flag in "gpiI0123456789" for flag in parts[3])
        )
    return all(_prints_lines(part.strip()) for part in script.split(";"))


def _prints_lines(part: str) -> bool:
    address, command = part[:-1].rstrip(), part[-1:]
    numbers = address.split(",") if address else []
    return command in ("p", "d", "q", "=") and len(numbers) <= 2 and all(
        number.isdigit() or number == "$" for number in numbers
    )  # fmt: skip


_JQ_WORDS = ("env", "ENV", "import", "include", "modulemeta", "get_search_list", "input_filename")
_JQ_LOOPS = re.compile(
    r"(?<![.\w])(def|repeat|while|until|range|infinite|combinations|recurse_down)\b|\brecurse *\("
    r'|\bg?sub *\((?! *"([^"\\*?|^$(){}\[\]+.]|\\[nt]|\\\\[.])+" *;)'
)
"""What may be repeated without an end. `recurse` alone goes through the value that is there. `gsub` of jq 1.6
never ends if its pattern fits the empty text, so only plain patterns pass."""


def _check_jq(given: Arguments) -> None:
    program = given.operands[0].text if given.operands else ""
    if any(word in program for word in _JQ_WORDS):
        raise Objection("the filter of `jq` may read the environment or another file", Effect.SECRETS)
    if _JQ_LOOPS.search(program):
        raise Objection("the filter of `jq` may never end", Effect.WAITS)


_CHECKS: dict[str, Callable[[Arguments], None]] = {
    "": _check_nothing,
    "date": _check_date,
    "git-format": _check_format,
    "seq": _check_seq,
    "sed": _check_sed,
    "jq": _check_jq,
}
