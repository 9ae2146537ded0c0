"""`flytui completion SHELL`: prints the script that completes flytui's commands, tools and sidecars."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from flytui.cli.invocation import Invocation, common
from flytui.cli.shell_completion import PROGRAM, VARIABLE


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@common
def completion(invocation: Invocation, shell: str) -> int:
    """Print the script that completes flytui's commands in SHELL.

    bash, zsh: eval "$(flytui completion bash)" in ~/.bashrc or ~/.zshrc.
    fish: flytui completion fish > ~/.config/fish/completions/flytui.fish
    """
    if invocation.as_json:
        raise click.UsageError("the script of a shell is not a JSON document: leave out --json")
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}")
    script = kind(click.get_current_context().find_root().command, {}, PROGRAM, VARIABLE)
    click.echo(
        ShellComplete.source(script)
    )  # the method of bash's own class starts a bash to ask for its version
    return 0
