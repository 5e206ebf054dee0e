"""`headwater pipeline`: check and run pipelines on Spark, list and stop running ones."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.terminal import AsJson, CommandConfig, failing_clearly, show, waiting

if TYPE_CHECKING:
    from headwater.pipelines.run.run_files import RunReport
    from headwater.pipelines.spec.pipeline_spec import PipelineSpec

app = typer.Typer(no_args_is_help=True, help="Run and check pipelines on Spark.")

_LOOK_EVERY_S: Final = 0.1

File = Annotated[
    Path, typer.Argument(help="Pipeline file: .yaml, .toml or .py.", show_default=False)
]
Name = Annotated[str, typer.Argument(help="Pipeline name.", show_default=False)]
Brokers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="HEADWATER_BOOTSTRAP",
        help="Brokers to use instead of those in the file (host:port).",
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
Offline = Annotated[
    bool, typer.Option("--offline", help="Check without brokers and schema registries.")
]


@app.command()
def run(
    file: File,
    once: Annotated[
        bool, typer.Option("--once", help="Process the records that exist now, then exit.")
    ] = False,
    bootstrap: Brokers = None,
    command_config: CommandConfig = None,
    runs: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Run a pipeline until it ends, or until Ctrl-C, SIGTERM or `headwater pipeline stop`."""
    with failing_clearly(), _telling_problems(as_json=as_json):
        # Imported here because the packages may not be installed.
        from headwater.cli.spark.pipeline_run import run_pipeline
        from headwater.pipelines.check.checked_pipeline import only_once

        spec = _checked(file, bootstrap, command_config, offline=False)
        chosen = only_once(spec) if once else spec
        code = run_pipeline(chosen, _folder(runs), as_json=as_json)
    raise typer.Exit(code)


@app.command()
def check(
    file: File,
    bootstrap: Brokers = None,
    command_config: CommandConfig = None,
    offline: Offline = False,
    as_json: AsJson = False,
) -> None:
    """Validate a pipeline without starting Spark."""
    with failing_clearly(), _telling_problems(as_json=as_json):
        _checked(file, bootstrap, command_config, offline=offline)
    if not as_json:
        typer.echo("no problems found")


@app.command("list")
def list_(runs: Folder = None, as_json: AsJson = False) -> None:
    """List the pipelines that run or have run on this machine."""
    from headwater.pipelines.run.run_files import reports

    with failing_clearly():
        rows = [_row(each) for each in reports(_folder(runs))]
    show(rows, as_json=as_json, columns=["pipeline", "state", "pid", "sinks", "lag", "file"])


@app.command()
def status(name: Name, runs: Folder = None, as_json: AsJson = False) -> None:
    """Show the progress of each sink of a pipeline."""
    from headwater.pipelines.run.run_files import report

    with failing_clearly():
        found = report(_folder(runs), name)
    rows = [{"pipeline": name, "run": _state(found), **each} for each in found.sinks]
    if as_json:
        show(rows, as_json=True, columns=())
        return
    typer.echo(f"{name}: {_state(found)}")
    # Fits 80 columns if no sink has an error.
    columns = ["sink", "state", "batch", "rows", "rows/s", "lag", "batch_ms", "restarts"]
    if any(each["error"] for each in found.sinks):
        columns.append("error")
    show([_short(each) for each in found.sinks], as_json=False, columns=columns)


@app.command()
def stop(
    name: Name,
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds to wait until it has stopped.")
    ] = 60.0,
    runs: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Stop a pipeline after the running batches are finished."""
    from headwater.pipelines.run.run_files import is_running, report

    folder = _folder(runs)
    with failing_clearly():
        found = report(folder, name)
        if not found.is_running:
            typer.echo(f"headwater: pipeline {name} is not running", err=True)
            raise typer.Exit(1)
        os.kill(found.pid, signal.SIGTERM)
        until_s = time.monotonic() + timeout
        while is_running(folder, name):
            if time.monotonic() > until_s:
                typer.echo(
                    f"headwater: pipeline {name} is still running after {timeout:g} s", err=True
                )
                raise typer.Exit(1)
            threading.Event().wait(_LOOK_EVERY_S)
    if as_json:
        typer.echo(json.dumps({"pipeline": name, "state": "stopped"}))


@app.command()
def prepare(
    again: Annotated[bool, typer.Option("--again", help="Rebuild an existing archive.")] = False,
    as_json: AsJson = False,
) -> None:
    """Build a class data archive so that Spark starts faster on this machine.

    The archive of about 200 MB is stored in ~/.cache/headwater. Building it takes about a minute;
    repeat it after an update of Java or Spark.
    """
    from headwater.process.java import find_java
    from headwater.spark.class_archive import (
        archive_folder,
        find_archive,
        fingerprint,
        jars_folder,
        make_archive,
    )

    with failing_clearly():
        java = find_java(os.environ)
        mark = fingerprint(java, jars_folder(os.environ))
        path = None if again else find_archive(archive_folder(os.environ), mark)
        is_new = path is None
        if path is None:
            with waiting("starting Spark and recording its classes"):
                path = make_archive(java, os.environ)
    if as_json:
        typer.echo(json.dumps({"file": str(path), "is_new": is_new}))
    else:
        size = f"{path.stat().st_size / 1e6:,.0f} MB"
        typer.echo(f"{'built' if is_new else 'already built'}: {path}, {size}")


@contextmanager
def _telling_problems(*, as_json: bool) -> Iterator[None]:
    """Print one line per problem, file:line: text, as compilers do."""
    from headwater.pipelines.spec.document import InvalidPipeline

    try:
        yield
    except InvalidPipeline as error:
        for each in error.problems:
            row = {"file": str(each.file), "line": each.line, "text": each.text}
            typer.echo(json.dumps(row) if as_json else str(each), err=not as_json)
        raise typer.Exit(1) from error


def _checked(
    file: Path, bootstrap: str | None, command_config: Path | None, *, offline: bool
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
        )


def _folder(given: Path | None) -> Path:
    from headwater.pipelines.run.run_files import usual_folder

    return given or usual_folder(os.environ)


def _state(found: "RunReport") -> str:
    """The state of a run; "died" if the process is gone without having reported its end."""
    if found.is_running:
        return found.state
    return found.state if found.state in ("finished", "stopped", "failed") else "died"


def _short(sink: dict[str, object]) -> dict[str, object]:
    """A sink for the table, with a short column name and a rounded rate."""
    rate = sink["rows_per_second"]
    shown = round(rate, 1 if rate < 100 else None) if isinstance(rate, float) else rate
    return {**sink, "rows/s": shown}


def _row(found: "RunReport") -> dict[str, object]:
    lags = [each["lag"] for each in found.sinks if each["lag"] is not None]
    return {
        "pipeline": found.name,
        "state": _state(found),
        "pid": found.pid if found.is_running else None,
        "sinks": len(found.sinks),
        "lag": sum(lags) if lags else None,
        "file": found.file,
    }
