"""Options, and reading of files, that the `headwater pipeline` commands share."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headwater.pipelines.spec.pipeline_spec import PipelineSpec

File = Annotated[Path, typer.Argument(help="A pipeline: .yaml, .toml or .py.", show_default=False)]
Name = Annotated[str, typer.Argument(help="The name of a pipeline.", show_default=False)]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="Spark's master instead of the file's: local[2], spark://..., yarn, k8s://...",
        show_default=False,
    ),
]
Brokers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="HEADWATER_BOOTSTRAP",
        help="Brokers to use instead of those in the file. Default: those in the file.",
        show_default=False,
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--runs",
        envvar="HEADWATER_PIPELINES",
        help="Directory with the state of runs; default: ~/.local/state/headwater/pipelines.",
        show_default=False,
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        help="Read the runs that are published to this cluster. Default: those in the files of "
        "this machine.",
        show_default=False,
    ),
]
Publish = Annotated[
    bool | None,
    typer.Option(
        "--publish/--no-publish",
        envvar="HEADWATER_PUBLISH_RUNS",
        help="Write the run's state to a topic, so that other machines can see and stop it; "
        "default: if the pipeline has bootstrap servers.",
        show_default=False,
    ),
]


@contextmanager
def printed_problems(*, as_json: bool) -> Iterator[None]:
    """Print one line per problem, file:line: text, as compilers do."""
    from headwater.pipelines.spec.document import InvalidPipeline

    try:
        yield
    except InvalidPipeline as error:
        for each in error.problems:
            row = {"file": str(each.file), "line": each.line, "text": each.text}
            typer.echo(json.dumps(row) if as_json else str(each), err=not as_json)
        raise typer.Exit(1) from error


def checked_pipeline(
    file: Path,
    bootstrap: str | None,
    command_config: Path | None,
    master: str | None,
    *,
    offline: bool,
) -> "PipelineSpec":
    from headwater.connect.pipeline_connectors import InstalledConnectors
    from headwater.pipelines.check.avro_check import ReachedRegistries
    from headwater.pipelines.check.broker_topics import BrokerTopics
    from headwater.pipelines.check.checked_pipeline import checked
    from headwater.pipelines.check.sql_grammar import SparkGrammar

    with SparkGrammar() as grammar:
        return checked(
            file,
            bootstrap=bootstrap,
            connectors=InstalledConnectors(),
            grammar=grammar,
            topics=None if offline else BrokerTopics(),
            registries=None if offline else ReachedRegistries(),
            settings=command_config,
            master=master,
            # Standard output may be JSON.
            warn=lambda each: typer.echo(
                f"{each.file}:{each.line}: warning: {each.text}", err=True
            ),
        )


def unchecked_pipeline(
    file: Path, bootstrap: str | None, command_config: Path | None
) -> "PipelineSpec":
    """Read a pipeline file without brokers, registries and Spark's grammar."""
    from headwater.pipelines.check.checked_pipeline import read_file
    from headwater.pipelines.spec.document import InvalidPipeline

    _, spec, problems = read_file(file, bootstrap=bootstrap, settings=command_config)
    if problems:
        raise InvalidPipeline(problems)
    return spec


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def runs_folder(given: Path | None) -> Path:
    from headwater.pipelines.run.run_files import usual_folder

    return given or usual_folder(os.environ)
