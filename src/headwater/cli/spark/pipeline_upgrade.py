"""`headwater pipeline upgrade`: report changes that need a new checkpoint."""

import json

import typer

from headwater.cli.spark.pipeline_options import (
    Brokers,
    File,
    printed_problems,
    unchecked_pipeline,
)
from headwater.cli.terminal import AsJson, CommandConfig, exit_on_error


def upgrade(
    file: File,
    bootstrap: Brokers = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Compare a pipeline's file with its checkpoint, before anything runs.

    Exits with 1 if a change needs a new checkpoint; `headwater pipeline run` would refuse it.
    """
    with exit_on_error(), printed_problems(as_json=as_json):
        from headwater.pipelines.checkpoint.checkpoint_storage import opened_storage
        from headwater.pipelines.checkpoint.file_changes import Effect, file_changes
        from headwater.pipelines.spec.load_document import load_document

        spec = unchecked_pipeline(file, bootstrap, command_config)
        with opened_storage(spec.checkpoint, spec.conf) as storage:
            found = file_changes(storage, spec)
        document = load_document(spec.file)
    for each in found or []:
        line = document.line_of(each.place)
        row = {
            "file": str(spec.file),
            "line": line,
            "sink": each.sink,
            "change": each.text,
            "effect": each.effect.name.lower().replace("_", "-"),
        }
        typer.echo(json.dumps(row) if as_json else str(document.problem(each.place, str(each))))
    if any(each.effect is Effect.BREAKS for each in found or []):
        if not as_json:
            typer.echo(
                "headwater: give a sink another name for a new checkpoint, or drop its state with "
                "headwater pipeline reset",
                err=True,
            )
        raise typer.Exit(1)
    if not as_json and not found:
        typer.echo("no checkpoint yet" if found is None else "no changes")
