"""`flytui lint`: reports all problems in the files that people write as `file:line:column`, or for GitHub."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flycore.model.diagnostics import Diagnostic, Severity
from flycore.registry.paths import RootPaths, find_paths
from flysafe.text import safe_text
from flytui.cli.documents import LintDocument, LintedFile
from flytui.cli.invocation import Invocation, common
from flytui.cli.kernel_query import read_catalog
from flytui.cli.output import count_of, print_error, print_json, print_line
from flytui.cli.settings_text import settings_problems

if TYPE_CHECKING:
    from flycore.offline.lint import LintResult

EXIT_ERRORS = 5
EXISTING = click.Path(exists=True, path_type=Path)
KINDS = (
    "registry",
    "tools-config",
    "manifest",
    "executables",
    "policy",
    "settings",
    "kits",
    "skills",
    "plugins",
    "mcp-servers",
    "flyflor",
    "ybs",
    "gibson",
    "glee",
)
"""The kinds of the table of sources, which imports most of the kernel. A test compares them."""
GITHUB_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


@click.command()
@click.argument("path", type=EXISTING, required=False)
@click.option(
    "--as",
    "kind",
    type=click.Choice(KINDS),
    help="The kind of the file PATH; without it flytui looks at the name and the content.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(("text", "github")),
    default="text",
    help="github prints annotations of GitHub Actions.",
)
@click.option(
    "--clients",
    is_flag=True,
    help="Check instead the tools, as agents are shown them, against the rules of models' interfaces.",
)
@common
def lint(invocation: Invocation, path: Path | None, kind: str | None, form: str, clients: bool) -> int:
    """Report problems in the files of the root, of the folder PATH, or in the file PATH.

    Exit 0, or 5 for an error. docs/lint.md lists all rules.
    """
    if kind is not None and (path is None or path.is_dir()):
        raise click.UsageError("--as gives the kind of a file: name the file, too")
    if invocation.as_json and form != "text":
        raise click.UsageError("--json and --format each name the form of the output: leave one out")
    if clients and (kind is not None or (path is not None and not path.is_dir())):
        raise click.UsageError("--clients is about the tools of a root, not about a file")
    places, result = _checked(invocation, path, kind or "", clients=clients)
    found = LintDocument(
        files=tuple(LintedFile(**looked._asdict()) for looked in result.files),
        errors=sum(item.severity is Severity.ERROR for item in result.diagnostics),
        warnings=sum(item.severity is Severity.WARNING for item in result.diagnostics),
        diagnostics=result.diagnostics,
    )
    if invocation.as_json:
        print_json(found)
    elif form == "github":
        for item in found.diagnostics:
            click.echo(annotation(item, places.app_root, _repository()))
        print_error(summary(found))
    else:
        for item in found.diagnostics:
            print_line("\n".join(finding_lines(item)))
        print_line(summary(found) if not clients else f"{_counts(found)} in the tools of {places.app_root}")
    return EXIT_ERRORS if found.errors else 0


def _checked(
    invocation: Invocation, path: Path | None, kind: str, *, clients: bool
) -> tuple[RootPaths, LintResult]:
    """Returns the findings about the root, the folder or the file, with the paths of the root."""
    # Most of the kernel, for which `flytui --help` would wait.
    from flycore.offline.lint import LintResult, lint_file, lint_root

    if path is not None and path.is_dir():
        if invocation.root is not None:
            raise click.UsageError("PATH and --root both name the folder: leave one out")
        places = find_paths(str(path), invocation.workspace, os.environ, Path.cwd())
    else:
        places = invocation.places()
    if clients:
        # The library of MCP, which takes longer than all other commands.
        from flycore.offline.lint_clients import client_findings

        return places, LintResult((), tuple(client_findings(read_catalog(places, probes=False))))
    if path is not None and path.is_dir():
        return places, lint_root(places, settings_problems)
    if path is None:
        return places, lint_root(places, settings_problems)
    return places, lint_file(places, path, kind, settings_problems)


def finding_lines(item: Diagnostic) -> list[str]:
    """Returns `file:line:column: severity: what is wrong [rule]`, then the line itself, then what to do."""
    where = f"{item.position}: " if item.position is not None else ""
    lines = [f"{where}{item.severity.value}: {item.message} [{item.rule}]"]
    lines += [f"    {line}" for line in item.excerpt.splitlines()]
    return [*lines, f"    → {item.remedy}"] if item.remedy else lines


def summary(found: LintDocument) -> str:
    """Returns a line with the number of errors and warnings, and the files that were checked."""
    names = ", ".join(f"{file.kind} {file.file}" for file in found.files if file.present)
    return f"{_counts(found)} in {names or 'no file: there is none yet'}"


def _counts(found: LintDocument) -> str:
    return f"{count_of(found.errors, 'error')}, {count_of(found.warnings, 'warning')}"


def _repository() -> Path:
    """Returns the folder from which GitHub counts the paths of annotations."""
    return Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())


def annotation(item: Diagnostic, app_root: Path, repository: Path) -> str:
    """Returns a finding as a command of GitHub Actions, in one line, which no text of a file can leave."""
    properties: dict[str, str] = {}
    if item.position is not None:
        file = os.path.expanduser(item.position.file)
        path = os.path.relpath(app_root / file, os.path.realpath(repository))
        properties["file"] = path if not path.startswith("../") else os.path.join(app_root, file)
        properties |= {"line": str(item.position.line), "col": str(item.position.column)}
    properties["title"] = item.rule
    message = f"{item.message} → {item.remedy}" if item.remedy else item.message
    named = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{GITHUB_LEVELS[item.severity.value]} {named}::{_data(message)}"


def _data(text: str) -> str:
    """Returns the text as the message of a command: the escapes are those of GitHub's own toolkit."""
    # Line breaks are escaped before other control characters become tokens.
    parts = (safe_text(part) for part in text.replace("%", "%25").replace("\r", "%0D").split("\n"))
    return "%0A".join(parts)


def _property(text: str) -> str:
    """Returns the text as a property of a command, which also may not hold `:` and `,`."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
