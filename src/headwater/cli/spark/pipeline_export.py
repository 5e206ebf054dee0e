"""`headwater pipeline export`: write a pipeline in the form of another tool."""

import json
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.terminal import AsJson, exit_on_error


def export(
    file: Annotated[
        Path, typer.Argument(help="A pipeline: .yaml, .toml or .py.", show_default=False)
    ],
    sdp: Annotated[
        bool, typer.Option("--sdp", help="Write a project of Spark Declarative Pipelines.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Directory to write to; default: NAME-sdp.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Export a pipeline as a project for `spark-pipelines run`."""
    from headwater.connect.pipeline_connectors import InstalledConnectors
    from headwater.pipelines.check.checked_pipeline import checked
    from headwater.pipelines.export.declarative_pipeline import NotExportable, write_project

    with exit_on_error():
        if not sdp:
            raise NotExportable("choose a target: --sdp")
        connectors = InstalledConnectors()
        spec = checked(file, bootstrap=None, connectors=connectors, grammar=None, topics=None)
        folder = output or Path(f"{spec.name}-sdp")
        written = write_project(spec, folder)
    notes = []
    if spec.dead_letter is not None:
        notes.append("dead letters are not exported: a record that does not parse fails its flow")
    notes += [
        f"create the topic {sink.options['topic']} first"
        for sink in spec.sinks
        if sink.create is not None
    ]
    if as_json:
        typer.echo(json.dumps({"files": [str(each) for each in written], "notes": notes}))
        return
    for each in written:
        typer.echo(f"wrote {each}")
    for note in notes:
        typer.echo(f"note: {note}")
    typer.echo(
        f"next: cd {folder} && spark-pipelines --remote 'local[2]' "
        "--conf spark.sql.catalogImplementation=hive run"
    )
