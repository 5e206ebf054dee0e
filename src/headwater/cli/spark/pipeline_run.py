"""Run a pipeline at a terminal: start Spark, handle signals, show progress.

Note: a signal that arrives while Spark starts is kept, and the run stops gracefully as soon as its
queries exist.
"""

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from headwater.cli.terminal import is_terminal, waiting
from headwater.network.system_clock import SystemClock

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from headwater.network.endpoint import Endpoint
    from headwater.pipelines.checkpoint.checkpoint_storage import CheckpointStorage
    from headwater.pipelines.metrics.lag_monitor import Lag, LagMonitor
    from headwater.pipelines.metrics.run_progress import RunProgress
    from headwater.pipelines.run.query_state import SinkQueryState
    from headwater.pipelines.run.run_files import RunFile
    from headwater.pipelines.run.run_publisher import RunPublisher
    from headwater.pipelines.spec.pipeline_spec import PipelineSpec
    from headwater.process.stop_signals import StopSignals

_log = logging.getLogger(__name__)

# At most one report per second.
_TELL_EVERY_MS: Final = 1_000
_CLOCK: Final = SystemClock()
_COLUMNS: Final = ("sink", "state", "batch", "rows", "rows_per_second", "lag", "batch_ms", "error")


def run_pipeline(
    spec: "PipelineSpec",
    folder: Path,
    *,
    as_json: bool,
    is_published: bool = False,
    metrics: "Endpoint | None" = None,
) -> int:
    """Run a pipeline to its end and return the exit code.

    A published run has its state in a topic of the pipeline's brokers as well. `metrics` is the
    address at which metrics are served.
    """
    from headwater.pipelines.checkpoint.checkpoint_storage import LocalStorage, local_folder
    from headwater.pipelines.metrics.lag_monitor import LagMonitor
    from headwater.pipelines.metrics.run_progress import RunProgress
    from headwater.pipelines.run.pipeline_run import exit_code
    from headwater.pipelines.run.run_files import RunFile
    from headwater.process.stop_signals import StopSignals, aside

    with (
        RunFile(folder, spec.name) as file,
        StopSignals() as signals,
        _publisher(spec) if is_published else nullcontext() as publisher,
        LagMonitor(spec, now_ms=lambda: time.time_ns() // 1_000_000) as lag_monitor,
    ):
        if (local := local_folder(spec.checkpoint)) is not None:
            _claim_checkpoint(LocalStorage(local), spec)
        progress = RunProgress(spec, metrics)
        reporter = Reporter(
            spec,
            file,
            as_json=as_json,
            publisher=publisher,
            lag_monitor=lag_monitor,
            progress=progress,
        )
        reporter.report_state("starting")
        with (
            _naming_the_log(file.spark_log),
            progress.serving(lag_monitor, steady_ms=_CLOCK.steady_ms) as url,
        ):
            if url is not None:
                typer.echo(f"headwater: metrics are at {url}", err=True)
            lives = aside(lambda: _run(spec, reporter, progress, signals, file.spark_log))
        code = exit_code(lives)
        reporter.report_state("failed" if code else _how_it_ended(lives))
    for each in lives:
        if each.error is not None:
            typer.echo(f"headwater: {each.name}: {each.error}", err=True)
    if code:
        _name_log(file.spark_log)
    return code


def _claim_checkpoint(storage: "CheckpointStorage", spec: "PipelineSpec") -> None:
    """Reject a file that does not fit the checkpoint; store its description."""
    from headwater.pipelines.checkpoint.file_changes import refuse_incompatible, write_description

    refuse_incompatible(storage, spec)
    write_description(storage, spec)


def _publisher(spec: "PipelineSpec") -> "RunPublisher":
    from headwater.client.settings import shared_settings
    from headwater.pipelines.check.topic_options import topic_options
    from headwater.pipelines.run.run_publisher import RunPublisher
    from headwater.pipelines.run.run_records import TOPIC
    from headwater.spark.sink.sink_options import read_sink_options

    options = read_sink_options(topic_options(spec, {"topic": TOPIC}), is_streaming=True)
    return RunPublisher(
        shared_settings(options.client),
        # The same signal that `headwater pipeline stop` sends on this machine.
        request_stop=lambda: os.kill(os.getpid(), signal.SIGTERM),
        steady_ms=_CLOCK.steady_ms,
    )


def _run(
    spec: "PipelineSpec",
    reporter: "Reporter",
    progress: "RunProgress",
    signals: "StopSignals",
    log_file: Path,
) -> "list[SinkQueryState]":
    """Return the final states of the sinks; none if stopped before they started."""
    logging.getLogger("py4j").setLevel(logging.ERROR)
    with _traces_in(log_file):
        return _run_session(spec, reporter, progress, signals, log_file)


@contextmanager
def _traces_in(log_file: Path) -> Iterator[None]:
    """Write traces of failed queries to Spark's log; the terminal gets one line each."""
    log_file.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(log_file, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("headwater.pipelines.run.supervisor")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
        handler.close()


def _run_session(
    spec: "PipelineSpec",
    reporter: "Reporter",
    progress: "RunProgress",
    signals: "StopSignals",
    log_file: Path,
) -> "list[SinkQueryState]":
    from headwater.connect.pipeline_connectors import InstalledConnectors
    from headwater.pipelines.checkpoint.checkpoint_storage import local_folder, session_storage
    from headwater.pipelines.run.pipeline_run import session_conf, supervisor_of
    from headwater.pipelines.run.spark_errors import SparkFailed, in_one_line
    from headwater.spark import session
    from headwater.spark.java_process import LOG_LEVEL

    conf = {LOG_LEVEL: "WARN", **session_conf(spec)}
    with waiting(f"Starting Spark on {spec.master or 'this machine'}"), in_one_line():
        spark = session(spec.master, conf, app_name=f"headwater-{spec.name}", log_file=log_file)
    try:
        if spark.sparkContext.uiWebUrl:
            typer.echo(f"headwater: Spark's UI is at {spark.sparkContext.uiWebUrl}", err=True)
        if signals.is_stop_requested:
            return []
        with in_one_line():
            if local_folder(spec.checkpoint) is None:
                _claim_checkpoint(session_storage(spec.checkpoint, spark), spec)
            with waiting("Planning the queries of the sinks"):
                supervisor = supervisor_of(
                    spec,
                    spark,
                    connectors=InstalledConnectors(),
                    steady_ms=_CLOCK.steady_ms,
                    on_change=reporter.report,
                    listeners=progress.listeners,
                    ended=progress.catch_up,
                    is_measured=progress.is_served,
                )
            signals.pass_to(supervisor.request_stop)
            with reporter:
                return supervisor.run()
    except SparkFailed:
        reporter.report_state("failed")
        raise
    finally:
        with waiting("Stopping Spark"):
            spark.stop()


@contextmanager
def _naming_the_log(log_file: Path) -> Iterator[None]:
    """Add the name of Spark's log to a failure of Spark itself."""
    from headwater.pipelines.run.spark_errors import SparkFailed

    try:
        yield
    except SparkFailed:
        _name_log(log_file)
        raise


def _name_log(log_file: Path) -> None:
    if log_file.exists():
        typer.echo(f"headwater: Spark's log is {log_file}", err=True)


def _how_it_ended(lives: "list[SinkQueryState]") -> str:
    return (
        "stopped"
        if not lives or any(each.state.value == "stopped" for each in lives)
        else "finished"
    )


class Reporter:
    """Report the progress of a run in its run file and on standard output."""

    def __init__(
        self,
        spec: "PipelineSpec",
        file: "RunFile",
        *,
        as_json: bool,
        publisher: "RunPublisher | None" = None,
        lag_monitor: "LagMonitor | None" = None,
        progress: "RunProgress | None" = None,
    ) -> None:
        self._lag_monitor = lag_monitor
        self._progress = progress
        self._spec = spec
        self._file = file
        self._publisher = publisher
        self._as_json = as_json
        self._started_ms = time.time_ns() // 1_000_000
        self._rows: list[dict[str, object]] = []
        self._printed: list[dict[str, object]] = []
        self._next_ms = 0
        self._live: Live | None = None

    def __enter__(self) -> None:
        if not self._as_json and is_terminal(sys.stdout):
            from rich.live import Live

            self._live = Live(progress_table(self._rows), refresh_per_second=4)
            self._live.__enter__()

    def __exit__(self, *_: object) -> None:
        self._print()
        if self._live is not None:
            self._live.__exit__(None, None, None)
            self._live = None

    def report(self, lives: "list[SinkQueryState]") -> None:
        if self._progress is not None:
            self._progress.tell(lives)
        lags: Mapping[str, Lag] = {}
        if self._lag_monitor is not None:
            known = {each.name: each.progress.ends for each in lives if each.progress is not None}
            self._lag_monitor.update(known)
            lags = self._lag_monitor.lags
        rows = [_row(each, lags.get(each.name)) for each in lives]
        changed = [each["state"] for each in rows] != [each["state"] for each in self._rows]
        self._rows = rows
        if changed or _CLOCK.steady_ms() >= self._next_ms:
            self._next_ms = _CLOCK.steady_ms() + _TELL_EVERY_MS
            try:
                self.report_state("running")
                self._print()
            except OSError:
                # A full disk or a closed standard output must not stop the pipeline.
                _log.warning("Cannot report progress: pipeline=%s", self._spec.name, exc_info=True)

    def report_state(self, state: str) -> None:
        from headwater.pipelines.run.run_files import RunReport

        report = RunReport(
            name=self._spec.name,
            file=str(self._spec.file),
            pid=os.getpid(),
            started_ms=self._started_ms,
            told_ms=time.time_ns() // 1_000_000,
            state=state,
            sinks=[dict(each) for each in self._rows],
        )
        if self._publisher is not None:
            self._publisher.publish(report)
        self._file.write(report)

    def _print(self) -> None:
        if self._live is not None:
            self._live.update(progress_table(self._rows))
            return
        for row, before in zip(self._rows, self._printed or [{} for _ in self._rows], strict=True):
            if row != before:
                report = {"pipeline": self._spec.name, **row}
                typer.echo(json.dumps(report) if self._as_json else _line(row))
        self._printed = self._rows


def _row(life: "SinkQueryState", lag: "Lag | None") -> dict[str, object]:
    """Return a sink as a row; `lag`, if known, is newer than that of the last batch."""
    progress = life.progress
    behind = None if progress is None else progress.lag
    if lag is not None and not life.is_over:
        behind = lag.records
    return {
        "sink": life.name,
        "state": life.state.value,
        "batch": None if progress is None else progress.batch_id,
        "rows": None if progress is None else progress.rows,
        "rows_per_second": None if progress is None else progress.rows_per_second,
        "lag": behind,
        "lag_ms": None if lag is None else lag.time_ms,
        "batch_ms": None if progress is None else progress.batch_ms,
        "dropped_rows": None if progress is None else progress.dropped_rows,
        "watermark": None if progress is None else progress.watermark,
        "restarts": life.restarts,
        "error": life.error,
    }


def _line(row: dict[str, object]) -> str:
    values = [f"{name} {row[name]}" for name in _COLUMNS[2:] if row[name] is not None]
    return f"{row['sink']}: {row['state']}" + (f"  {', '.join(values)}" if values else "")


def progress_table(rows: list[dict[str, object]]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in _COLUMNS:
        table.add_column(name.upper().replace("_PER_SECOND", "/S").replace("_", " "))
    for row in rows:
        cells = ["-" if row[name] is None else str(row[name]) for name in _COLUMNS]
        table.add_row(*map(Text, cells))
    return table
