"""`headwater pipeline`: check and run pipelines on Spark; manage running ones."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.spark.pipeline_bounds import bounded_pipeline, bounds_of
from headwater.cli.spark.pipeline_export import export
from headwater.cli.spark.pipeline_new import new
from headwater.cli.spark.pipeline_options import (
    Brokers,
    Cluster,
    File,
    Folder,
    Master,
    Name,
    Publish,
    checked_pipeline,
    now_ms,
    printed_problems,
    runs_folder,
)
from headwater.cli.spark.pipeline_reset import reset
from headwater.cli.spark.pipeline_submit import submit
from headwater.cli.spark.pipeline_upgrade import upgrade
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

app = typer.Typer(no_args_is_help=True, help="Run and check pipelines on Spark.")
app.command()(new)
app.command()(export)

_LOOK_EVERY_S: Final = 0.1

Offline = Annotated[
    bool, typer.Option("--offline", help="Do not connect to brokers or a registry.")
]


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
            help="Process a range in a separate run, from here: a time "
            "(2026-01-31T12:00, or milliseconds), earliest, or offsets "
            '({"orders": {"0": 25, "1": -2}}).',
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|OFFSETS",
            help="End of the range, exclusive: a time or offsets; default: now.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Directory for the files that a run with --from writes.",
            show_default=False,
        ),
    ] = None,
    master: Master = None,
    bootstrap: Brokers = None,
    command_config: CommandConfig = None,
    runs: Folder = None,
    publish: Publish = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve metrics for Prometheus at this address, under /metrics. Default: no "
            "metrics.",
            show_default=False,
        ),
    ] = None,
    ui: Annotated[
        bool, typer.Option("--ui", help="Start Spark's web UI and show its URL.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a pipeline until it ends or is stopped (Ctrl-C, `headwater pipeline stop`).

    With --from it processes a range of offsets once, with its own name and checkpoint. The same
    command resumes it.
    """
    if from_ is None and (to is not None or output is not None):
        raise typer.BadParameter("--to and --output need --from")
    bounds = None if from_ is None else bounds_of(from_, to, now_ms=now_ms())
    with exit_on_error(), printed_problems(as_json=as_json):
        # Imported here because the packages may not be installed.
        from headwater.cli.spark.pipeline_run import run_pipeline
        from headwater.network.endpoint import parse_address
        from headwater.pipelines.check.checked_pipeline import only_once

        spec = checked_pipeline(file, bootstrap, command_config, master, offline=False)
        chosen = only_once(spec) if once else spec
        if bounds is not None:
            chosen = bounded_pipeline(chosen, bounds, output, as_json=as_json)
        if ui:
            chosen = replace(chosen, conf={**chosen.conf, "spark.ui.enabled": "true"})
        code = run_pipeline(
            chosen,
            runs_folder(runs),
            as_json=as_json,
            is_published=chosen.bootstrap is not None if publish is None else publish,
            metrics=None if metrics is None else parse_address(metrics, name="METRICS"),
        )
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
    with exit_on_error(), printed_problems(as_json=as_json):
        checked_pipeline(file, bootstrap, command_config, master, offline=offline)
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
            rows = [_row(each) for each in reports(runs_folder(runs))]
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
    max_lag: Annotated[
        int | None,
        typer.Option(
            "--max-lag",
            min=0,
            help="Exit with 3 if the lag of a sink exceeds this, with 1 if it is not running.",
            show_default=False,
        ),
    ] = None,
    max_lag_seconds: Annotated[
        float | None,
        typer.Option(
            "--max-lag-seconds",
            min=0,
            help="The same for the age of the oldest unread record, in seconds.",
            show_default=False,
        ),
    ] = None,
    runs: Folder = None,
    bootstrap: Cluster = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the progress of each sink of a pipeline."""
    from headwater.pipelines.run.run_files import report

    with exit_on_error():
        if bootstrap is None:
            found = report(runs_folder(runs), name)
        else:
            found = _as_report(_published_run(bootstrap, command_config, name))
    rows = [{"pipeline": name, "run": _state(found), **each} for each in found.sinks]
    code = 0
    if max_lag is not None or max_lag_seconds is not None:
        code = alert_code(found, _state(found), max_lag, max_lag_seconds)
    if as_json:
        show(rows, as_json=True, columns=())
        raise typer.Exit(code)
    typer.echo(f"{name}: {_state(found)}")
    # Fits 80 columns if no sink has an error.
    columns = ["sink", "state", "batch", "rows", "rows/s", "lag", "batch_ms", "restarts"]
    if any(each["error"] for each in found.sinks):
        columns.append("error")
    show([_short(each) for each in found.sinks], as_json=False, columns=columns)
    raise typer.Exit(code)


@app.command()
def stop(
    name: Name,
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for the end of the run.")
    ] = 60.0,
    runs: Folder = None,
    bootstrap: Cluster = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Stop a pipeline after its running batches."""
    from headwater.pipelines.run.run_files import is_running, report

    folder = runs_folder(runs)
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


app.command()(reset)
app.command()(upgrade)
app.command()(submit)


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
    """Replace small files of Delta and Iceberg tables by large ones."""
    with exit_on_error(), printed_problems(as_json=as_json):
        from headwater.pipelines.run.pipeline_run import session_conf
        from headwater.pipelines.tables.compaction import compact_tables, tables_of

        spec = checked_pipeline(file, None, None, master, offline=True)
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
        typer.Option("--with", help="Another installed package to include; repeatable."),
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
    if not run.is_alive(now_ms()):
        raise _refused(f"pipeline {name} is not running")
    with RunTopic(_client(bootstrap, command_config)) as topic:
        topic.request_stop(run, now_ms())

        def has_ended() -> bool:
            latest = topic.refresh().runs.get(name)
            if latest is None or latest.started_ms != run.started_ms:
                return True
            return not latest.is_alive(now_ms())

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
        is_running=run.is_alive(now_ms()),
    )


def _refused(text: str) -> typer.Exit:
    typer.echo(f"headwater: {text}", err=True)
    return typer.Exit(1)


def _state(found: "RunReport") -> str:
    """Return the state of a run; one that ended without a report is dead."""
    if found.is_running:
        return found.state
    return found.state if found.state in ("finished", "stopped", "failed") else "died"


def alert_code(
    found: "RunReport", state: str, max_lag: int | None, max_lag_seconds: float | None
) -> int:
    """Return 0, 1 if the pipeline or a sink is not running, or 3 if a sink lags."""
    if state != "running" or not found.sinks:
        typer.echo(f"headwater: {found.name} is not running: {state}", err=True)
        return 1
    code = 0
    for each in found.sinks:
        lag, lag_ms = each.get("lag"), each.get("lag_ms")
        if each["state"] not in ("running", "finished"):
            typer.echo(f"headwater: {each['sink']} is {each['state']}", err=True)
            return 1
        if max_lag is not None and lag is not None and lag > max_lag:
            typer.echo(f"headwater: {each['sink']} is {lag:,} records behind", err=True)
            code = 3
        if max_lag_seconds is not None and lag_ms is not None and lag_ms > max_lag_seconds * 1000:
            typer.echo(f"headwater: {each['sink']} is {lag_ms / 1000:,.1f} s behind", err=True)
            code = 3
    return code


def _short(sink: dict[str, object]) -> dict[str, object]:
    """Return a sink as a row of the table, with a short name for its rounded rate."""
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
