"""`flytui lint`: reports all problems in registry, policy, settings and kits as `file:line:column`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.output import count_of, print_json, print_line

if TYPE_CHECKING:
    from flycore.model.diagnostics import Diagnostic
    from flytui.cli.documents import LintDocument

EXIT_ERRORS = 5
EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("file", type=EXISTING, required=False)
@click.option(
    "--as",
    "kind",
    type=click.Choice(("registry", "policy", "settings", "kits")),
    help="The kind of FILE; without it flytui looks at the name and the content.",
)
@common
def lint(invocation: Invocation, file: Path | None, kind: str | None) -> int:
    """Report problems in the files of the root, or in FILE.

    Exit 0, or 5 for an error.
    """
    from flycore.model.diagnostics import Severity
    from flycore.offline.lint import lint_file, lint_root
    from flytui.cli.documents import LintDocument, LintedFile
    from flytui.cli.settings_text import settings_problems

    if kind is not None and file is None:
        raise click.UsageError("--as gives the kind of FILE: name the file, too")
    places = invocation.places()
    if file is None:
        result = lint_root(places, settings_problems)
    else:
        result = lint_file(places, file, kind or "", settings_problems)
    found = LintDocument(
        files=tuple(LintedFile(**looked._asdict()) for looked in result.files),
        errors=sum(item.severity is Severity.ERROR for item in result.diagnostics),
        warnings=sum(item.severity is Severity.WARNING for item in result.diagnostics),
        diagnostics=result.diagnostics,
    )
    if invocation.as_json:
        print_json(found)
    else:
        for item in found.diagnostics:
            print_line("\n".join(finding_lines(item)))
        print_line(summary(found))
    return EXIT_ERRORS if found.errors else 0


def finding_lines(item: Diagnostic) -> list[str]:
    """Returns `file:line:column: severity: what is wrong [rule]`, then the line itself, then what to do."""
    where = f"{item.position}: " if item.position is not None else ""
    lines = [f"{where}{item.severity.value}: {item.message} [{item.rule}]"]
    lines += [f"    {line}" for line in item.excerpt.splitlines()]
    return [*lines, f"    → {item.remedy}"] if item.remedy else lines


def summary(found: LintDocument) -> str:
    """Returns a line with the number of errors and warnings, and the files that were checked."""
    names = ", ".join(f"{file.kind} {file.file}" for file in found.files if file.present)
    counts = f"{count_of(found.errors, 'error')}, {count_of(found.warnings, 'warning')}"
    return f"{counts} in {names or 'no file: there is none yet'}"
