"""`headwater pipeline`: check and run pipelines on Spark; manage running ones."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.spark.pipeline_bounds import bounded_pipeline, bounds_of
from headwater.cli.spark.pipeline_export import export
from headwater.cli.spark.pipeline_new import new
from headwater.cli.terminal import (
    AsJson,
    CommandConfig,
    admin_of,
    client_settings,
    exit_on_error,
    show,
    waiting,
)

if TYPE_CHECKING:
    from headwater.pipelines.run.run_files import RunReport
    from headwater.pipelines.run.run_records import PublishedRun
    from headwater.pipelines.spec.pipeline_spec import PipelineSpec

app = typer.Typer(no_args_is_help=True, help="Run and check pipelines on Spark.")
app.command()(new)
app.command()(export)

_LOOK_EVERY_S: Final = 0.1

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
Cluster = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        help="Read published runs from these brokers (host:port) instead of this machine's files.",
        show_default=False,
    ),
]
Publish = Annotated[
    bool,
    typer.Option(
        "--publish",
        envvar="HEADWATER_PUBLISH_RUNS",
        help="Keep the run's state in a topic too, so that other machines can see and stop it.",
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Ask no broker and no registry.")]


@app.command()
def run(
    file: File,
    once: Annotated[
        bool, typer.Option("--once", help="Process the records that exist now, then exit.")
    ] = False,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Read from here in a run of its own, beside the live one: a time "
            "(2026-01-31T12:00, or milliseconds), earliest, or offsets "
            '({"orders": {"0": 25, "1": -2}}).',
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="Where such a run ends, exclusive: a time or offsets; default: now.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(help="Folder for the files that such a run writes.", show_default=False),
    ] = None,
    master: Master = None,
    bootstrap: Brokers = None,
    command_config: CommandConfig = None,
    runs: Folder = None,
    publish: Publish = False,
    as_json: AsJson = False,
) -> None:
    """Run a pipeline until it ends or is stopped (Ctrl-C, `headwater pipeline stop`).

    With --from it processes a range of offsets once, with its own name and checkpoint. The same
    command resumes it.
    """
    if from_ is None and (to is not None or output is not None):
        raise typer.BadParameter("--to and --output need --from")
    bounds = None if from_ is None else bounds_of(from_, to, now_ms=_now_ms())
    with exit_on_error(), _telling_problems(as_json=as_json):
        # Imported here because the packages may not be installed.
        from headwater.cli.spark.pipeline_run import run_pipeline
        from headwater.pipelines.check.checked_pipeline import only_once

        spec = _checked(file, bootstrap, command_config, master, offline=False)
        chosen = only_once(spec) if once else spec
        if bounds is not None:
            chosen = bounded_pipeline(chosen, bounds, output, as_json=as_json)
        code = run_pipeline(chosen, _folder(runs), as_json=as_json, is_published=publish)
    raise typer.Exit(code)


@app.command()
def check(
    file: File,
    master: Master = None,
    bootstrap: Brokers = None,
    command_config: CommandConfig = None,
    offline: Offline = False,
    as_json: AsJson = False,
) -> None:
    """Validate a pipeline without starting Spark."""
    with exit_on_error(), _telling_problems(as_json=as_json):
        _checked(file, bootstrap, command_config, master, offline=offline)
    if not as_json:
        typer.echo("no problems found")


@app.command("list")
def list_(
    runs: Folder = None,
    bootstrap: Cluster = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List the pipelines that run or have run on this machine, or on any machine."""
    from headwater.pipelines.run.run_files import reports

    columns = ["pipeline", "state", "pid", "sinks", "lag", "file"]
    with exit_on_error():
        if bootstrap is None:
            rows = [_row(each) for each in reports(_folder(runs))]
        else:
            published = _published(bootstrap, command_config)
            rows = [
                {**_row(_as_report(each)), "host": each.host}
                for _, each in sorted(published.items())
            ]
            columns.insert(2, "host")
    show(rows, as_json=as_json, columns=columns)


@app.command()
def status(
    name: Name,
    runs: Folder = None,
    bootstrap: Cluster = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the progress of each sink of a pipeline."""
    from headwater.pipelines.run.run_files import report

    with exit_on_error():
        if bootstrap is None:
            found = report(_folder(runs), name)
        else:
            found = _as_report(_published_run(bootstrap, command_config, name))
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
    bootstrap: Cluster = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Stop a pipeline after its running batches."""
    from headwater.pipelines.run.run_files import is_running, report

    folder = _folder(runs)
    with exit_on_error():
        if bootstrap is not None:
            _stop_published(bootstrap, command_config, name, timeout)
        else:
            found = report(folder, name)
            if not found.is_running:
                raise _refused(f"pipeline {name} is not running")
            os.kill(found.pid, signal.SIGTERM)
            _await_end(name, lambda: not is_running(folder, name), timeout)
    if as_json:
        typer.echo(json.dumps({"pipeline": name, "state": "stopped"}))


@app.command()
def compact(
    file: File,
    sink: Annotated[
        str | None,
        typer.Option("--sink", help="The sink to compact; default: all that are tables."),
    ] = None,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Replace small files of Delta and Iceberg tables by large ones, while the pipeline runs."""
    with exit_on_error(), _telling_problems(as_json=as_json):
        from headwater.pipelines.run.pipeline_run import session_conf
        from headwater.pipelines.tables.compaction import compact_tables, tables_of

        spec = _checked(file, None, None, master, offline=True)
        tables = tables_of(spec, sink)
        for done in compact_tables(tables, spec.master, session_conf(spec)):
            row = {
                "sink": done.sink,
                "files_before": done.files_before,
                "files_after": done.files_after,
            }
            line = f"{done.sink}: {done.files_before} files became {done.files_after}"
            typer.echo(json.dumps(row) if as_json else line)


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

    with exit_on_error():
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


@app.command()
def package(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The archive to write.", dir_okay=False)
    ] = Path("headwater-package.tar.gz"),
    with_: Annotated[
        list[str] | None,
        typer.Option("--with", help="Another installed package to include; can be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Pack Headwater and what it requires for executors that do not have it.

    Name the archive in a pipeline (`session: {package: FILE}`), or in a program's settings
    (`spark.archives=FILE#headwater`). Executors need the same version of Python as this one, on the
    same kind of machine.
    """
    from headwater.spark.packed_environment import pack_environment

    with exit_on_error(), waiting("Packing the installed packages"):
        output.parent.mkdir(parents=True, exist_ok=True)
        packages = pack_environment(output, with_ or [])
    size_bytes = output.stat().st_size
    if as_json:
        row = {"file": str(output.resolve()), "bytes": size_bytes, "packages": packages}
        typer.echo(json.dumps(row))
    else:
        typer.echo(f"packed {len(packages)} packages: {output}, {size_bytes / 1e6:,.0f} MB")


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


def _published(bootstrap: str, command_config: Path | None) -> "dict[str, PublishedRun]":
    from headwater.pipelines.run.run_topic import RunTopic

    with admin_of(bootstrap, command_config):
        # Fails with one line if no broker answers.
        pass
    with RunTopic(_client(bootstrap, command_config)) as topic:
        return dict(topic.refresh().runs)


def _published_run(bootstrap: str, command_config: Path | None, name: str) -> "PublishedRun":
    found = _published(bootstrap, command_config).get(name)
    if found is None:
        raise _refused(f"no run of the pipeline {name} is published there")
    return found


def _stop_published(bootstrap: str, command_config: Path | None, name: str, timeout: float) -> None:
    from headwater.pipelines.run.run_topic import RunTopic

    run = _published_run(bootstrap, command_config, name)
    if not run.is_alive(_now_ms()):
        raise _refused(f"pipeline {name} is not running")
    with RunTopic(_client(bootstrap, command_config)) as topic:
        topic.request_stop(run, _now_ms())

        def has_ended() -> bool:
            latest = topic.refresh().runs.get(name)
            if latest is None or latest.started_ms != run.started_ms:
                return True
            return not latest.is_alive(_now_ms())

        _await_end(name, has_ended, timeout)


def _await_end(name: str, has_ended: Callable[[], bool], timeout: float) -> None:
    until_s = time.monotonic() + timeout
    while not has_ended():
        if time.monotonic() > until_s:
            raise _refused(f"{name} still runs after {timeout:g} s")
        threading.Event().wait(_LOOK_EVERY_S)


def _client(bootstrap: str, command_config: Path | None) -> dict[str, str]:
    from headwater.client.settings import shared_settings

    found = shared_settings(client_settings(bootstrap, command_config))
    return {name: str(value) for name, value in found.items()}


def _as_report(run: "PublishedRun") -> "RunReport":
    from headwater.pipelines.run.run_files import RunReport

    return RunReport(
        name=run.name,
        file=run.file,
        pid=run.pid,
        started_ms=run.started_ms,
        told_ms=run.told_ms,
        state=run.state,
        sinks=[dict(each) for each in run.sinks],
        is_running=run.is_alive(_now_ms()),
    )


def _refused(text: str) -> typer.Exit:
    typer.echo(f"headwater: {text}", err=True)
    return typer.Exit(1)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _folder(given: Path | None) -> Path:
    from headwater.pipelines.run.run_files import usual_folder

    return given or usual_folder(os.environ)


def _state(found: "RunReport") -> str:
    """The state of a run; one that ended without a report has died."""
    if found.is_running:
        return found.state
    return found.state if found.state in ("finished", "stopped", "failed") else "died"


def _short(sink: dict[str, object]) -> dict[str, object]:
    """A sink as a row of the table: its rate under a short name, and rounded."""
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
