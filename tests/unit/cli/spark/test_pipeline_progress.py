"""Progress reports of a running pipeline."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from headwater.cli.spark.pipeline_run import Reporter, progress_table
from headwater.pipelines.run.batch_progress import BatchProgress
from headwater.pipelines.run.query_state import SinkQueryState
from headwater.pipelines.run.run_files import RunFile, report
from headwater.pipelines.spec.pipeline_spec import PipelineSpec

SPEC = PipelineSpec(
    file=Path("/p.yaml"), name="orders", checkpoint="/ck", sources=(), steps=(), sinks=()
)
PROGRESS = BatchProgress(
    batch_id=4,
    rows=100,
    rows_per_second=51.3,
    batch_ms=1950,
    lag=12,
    dropped_rows=0,
    watermark=None,
)
LIVES = [SinkQueryState(name="big").started().progressed(PROGRESS)]


def test_progress_is_written_to_the_run_file(tmp_path: Path) -> None:
    with RunFile(tmp_path, "orders") as file:
        Reporter(SPEC, file, as_json=False).report(LIVES)
    (sink,) = report(tmp_path, "orders").sinks
    assert (sink["sink"], sink["state"], sink["batch"], sink["lag"]) == ("big", "running", 4, 12)


@pytest.mark.parametrize("as_json", [False, True])
def test_unchanged_progress_is_not_printed_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    with RunFile(tmp_path, "orders") as file:
        reporter = Reporter(SPEC, file, as_json=as_json)
        with reporter:
            reporter.report(LIVES)
            reporter.report(LIVES)
    (line,) = capsys.readouterr().out.splitlines()
    if as_json:
        told = json.loads(line)
        assert (told["pipeline"], told["rows_per_second"], told["lag"]) == ("orders", 51.3, 12)
    else:
        assert (
            line == "big: running  batch 4, rows 100, rows_per_second 51.3, lag 12, batch_ms 1950"
        )


def test_a_failed_progress_report_does_not_stop_the_pipeline(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with RunFile(tmp_path, "orders") as file:
        reporter = Reporter(SPEC, file, as_json=True)
        (tmp_path / "orders.draft").mkdir()
        reporter.report(LIVES)
    assert "Cannot report progress: pipeline=orders" in caplog.text


def test_progress_is_a_table_on_a_terminal(tmp_path: Path) -> None:
    with RunFile(tmp_path, "orders") as file:
        Reporter(SPEC, file, as_json=True).report(LIVES)
        console = Console(width=100, record=True)
        console.print(progress_table(report(tmp_path, "orders").sinks))
    head, row = console.export_text().splitlines()
    assert head.split() == [
        "SINK",
        "STATE",
        "BATCH",
        "ROWS",
        "ROWS/S",
        "LAG",
        "BATCH",
        "MS",
        "ERROR",
    ]
    assert row.split() == ["big", "running", "4", "100", "51.3", "12", "1950", "-"]
