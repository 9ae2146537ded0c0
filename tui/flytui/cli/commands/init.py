"""`flytui init`: writes a first registry for a project that has none."""

from __future__ import annotations

import click

from flytui.cli.invocation import Invocation, common
from flytui.cli.output import print_error, print_json, print_line

EXIT_REFUSED = 5


@click.command()
@click.option("--print", "only_print", is_flag=True, help="Print the registry, and write nothing.")
@common
def init(invocation: Invocation, only_print: bool) -> int:
    """Write a first registry, for a project that has none.

    It has every program that comes with flytui. The command overwrites nothing and trusts nothing.
    """
    from flycore.offline.files import starter_text, write_starter
    from flycore.registry.paths import REGISTRY_FILE
    from flytui.cli.documents import InitDocument

    places = invocation.places()
    why_not = "" if only_print else write_starter(places)
    outcome = "printed" if only_print else "refused" if why_not else "created"
    message = why_not or ("" if only_print else "flytui trust shows what it would run, and lets you trust it")
    if invocation.as_json:
        print_json(
            InitDocument(
                app_root=str(places.app_root),
                file=REGISTRY_FILE,
                outcome=outcome,
                text=starter_text() if only_print else "",
                message=message,
            )
        )
    elif only_print:
        print_line(starter_text().rstrip("\n"))
    elif why_not:
        print_error(why_not)
    else:
        print_line(f"{REGISTRY_FILE} is written below {places.app_root}")
        print_error(message)
    return EXIT_REFUSED if why_not else 0
