"""A run of a pipeline at a terminal: Spark started, signals heard, progress shown and written down.

What a reader would get wrong: Spark is started in another thread, because PySpark takes Ctrl-C for
itself where its context starts in the main one. So signals are heard from the beginning: the first
one asks for a gentle end, which a run that is still starting comes to when Spark is up, and the
second one ends at once.
"""

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

import typer

from headwater.cli.terminal import is_terminal
from headwater.net.system import SystemClock

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from headwater.pipeline.jobs.run_files import RunFile
    from headwater.pipeline.jobs.sink_life import SinkLife
    from headwater.pipeline.jobs.spec import PipelineSpec

_log = logging.getLogger(__name__)

# Whoever looks at a file or a screen does not need it more often.
_TELL_EVERY_MS: Final = 1_000
_CLOCK: Final = SystemClock()
_COLUMNS: Final = ("sink", "state", "batch", "rows", "rows_per_second", "lag", "batch_ms", "error")


def run_pipeline(spec: "PipelineSpec", folder: Path, *, as_json: bool) -> int:
    """Until its end; the answer is the exit code."""
    from headwater.pipeline import session
    from headwater.pipeline.connect.in_pipelines import InstalledConnectors
    from headwater.pipeline.jobs.run_files import RunFile
    from headwater.pipeline.jobs.running import exit_code, supervisor_of
    from headwater.pipeline.jobs.spark_failures import SparkFailed, in_one_line

    with RunFile(folder, spec.name) as file:
        signals = Signals()
        signals.hear()
        reporter = Reporter(spec, file, as_json=as_json)
        reporter.tell_state("starting")
        logging.getLogger("py4j").setLevel(logging.ERROR)
        with ThreadPoolExecutor(1) as aside:
            name = f"headwater-{spec.name}"
            spark = aside.submit(session, spec.master, spec.conf, app_name=name).result()
        try:
            if signals.is_asked:
                reporter.tell_state("stopped")
                return 0
            spark.sparkContext.setLogLevel("ERROR")
            with in_one_line():
                supervisor = supervisor_of(
                    spec,
                    spark,
                    connectors=InstalledConnectors(),
                    steady_ms=_CLOCK.steady_ms,
                    tell=reporter.tell,
                )
                signals.pass_to(supervisor.ask_to_stop)
                with reporter:
                    lives = supervisor.run()
            code = exit_code(lives)
            reporter.tell_state("failed" if code else _how_it_ended(lives))
        except SparkFailed:
            reporter.tell_state("failed")
            raise
        finally:
            spark.stop()
    for each in lives:
        if each.error is not None:
            typer.echo(f"headwater: {each.name}: {each.error}", err=True)
    return code


def _how_it_ended(lives: "list[SinkLife]") -> str:
    return "stopped" if any(each.state.value == "stopped" for each in lives) else "finished"


class Signals:
    """SIGTERM and Ctrl-C, as a wish to stop that may come before there is anything to stop."""

    def __init__(self) -> None:
        self.is_asked = False
        self._ask_to_stop: Callable[[], None] | None = None

    def hear(self) -> None:
        """From now on."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._hear)

    def pass_to(self, ask_to_stop: Callable[[], None]) -> None:
        """Who is to be asked, also if it was asked before."""
        self._ask_to_stop = ask_to_stop
        if self.is_asked:
            ask_to_stop()

    def _hear(self, number: int, _: FrameType | None) -> None:
        # Another one of these ends the process at once, as it would any other.
        signal.signal(number, signal.SIG_DFL)
        self.is_asked = True
        if self._ask_to_stop is not None:
            self._ask_to_stop()


class Reporter:
    """Tells the world how a run goes: in its file, and on standard output."""

    def __init__(self, spec: "PipelineSpec", file: "RunFile", *, as_json: bool) -> None:
        self._spec = spec
        self._file = file
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

    def tell(self, lives: "list[SinkLife]") -> None:
        rows = [_row(each) for each in lives]
        changed = [each["state"] for each in rows] != [each["state"] for each in self._rows]
        self._rows = rows
        if changed or _CLOCK.steady_ms() >= self._next_ms:
            self._next_ms = _CLOCK.steady_ms() + _TELL_EVERY_MS
            try:
                self.tell_state("running")
                self._print()
            except OSError:
                # A disk that is full, or a reader who has left, must not stop the data.
                _log.warning("progress cannot be told", exc_info=True)

    def tell_state(self, state: str) -> None:
        from headwater.pipeline.jobs.run_files import RunReport

        self._file.tell(
            RunReport(
                name=self._spec.name,
                file=str(self._spec.file),
                pid=os.getpid(),
                started_ms=self._started_ms,
                told_ms=time.time_ns() // 1_000_000,
                state=state,
                sinks=[dict(each) for each in self._rows],
            )
        )

    def _print(self) -> None:
        if self._live is not None:
            self._live.update(progress_table(self._rows))
            return
        for row, before in zip(self._rows, self._printed or [{} for _ in self._rows], strict=True):
            if row != before:
                told = {"pipeline": self._spec.name, **row}
                typer.echo(json.dumps(told) if self._as_json else _line(row))
        self._printed = self._rows


def _row(life: "SinkLife") -> dict[str, object]:
    progress = life.progress
    return {
        "sink": life.name,
        "state": life.state.value,
        "batch": None if progress is None else progress.batch_id,
        "rows": None if progress is None else progress.rows,
        "rows_per_second": None if progress is None else progress.rows_per_second,
        "lag": None if progress is None else progress.lag,
        "batch_ms": None if progress is None else progress.batch_ms,
        "dropped_rows": None if progress is None else progress.dropped_rows,
        "watermark": None if progress is None else progress.watermark,
        "restarts": life.restarts,
        "error": life.error,
    }


def _line(row: dict[str, object]) -> str:
    said = [f"{name} {row[name]}" for name in _COLUMNS[2:] if row[name] is not None]
    return f"{row['sink']}: {row['state']}" + (f"  {', '.join(said)}" if said else "")


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
