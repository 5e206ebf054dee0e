"""`headwater pipeline new`: write a pipeline and its test from a template."""

import json
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.terminal import AsJson, exit_on_error, show


def new(
    name: Annotated[
        str | None,
        typer.Argument(help="Name of the pipeline and its file.", show_default=False),
    ] = None,
    template: Annotated[
        str, typer.Option("--template", "-t", help="Template to start from; see --list.")
    ] = "filter",
    directory: Annotated[
        Path, typer.Option("--directory", "-d", help="Directory to write to.", file_okay=False)
    ] = Path(),
    list_: Annotated[bool, typer.Option("--list", help="List the templates and exit.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a commented pipeline file and a test that passes. Existing files are kept."""
    from headwater.pipelines.templates.new_pipeline import TEMPLATES, NotWritten, new_pipeline

    if list_:
        rows = [{"template": each, "use": use} for each, use in TEMPLATES.items()]
        show(rows, as_json=as_json, columns=["template", "use"])
        return
    with exit_on_error():
        if name is None:
            raise NotWritten("give the new pipeline a name, or --list for the templates")
        written = new_pipeline(name, template, directory)
    if as_json:
        typer.echo(json.dumps({"files": [str(each) for each in written]}))
        return
    for each in written:
        typer.echo(f"wrote {each}")
    typer.echo(f"next: pytest {written[1]}; headwater pipeline run {written[0]}")
