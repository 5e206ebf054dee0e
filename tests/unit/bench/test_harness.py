"""Benchmark harness: goals, result files and interleaved rounds."""

import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console

from bench.__main__ import BENCHMARKS, NAMED_ONLY, Benchmark, _default_names, run
from bench.harness import Bench, Figure, in_short, median_of_rounds

ROOT = Path(__file__).parents[3]


@pytest.fixture
def screen() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def bench(tmp_path: Path, screen: io.StringIO) -> Bench:
    console = Console(file=screen, width=80)
    return Bench("log", "The log", results=tmp_path, console=console)


def test_a_run_that_meets_every_goal_succeeds(bench: Bench) -> None:
    bench.record("append", 900.0, "MB/s", at_least=500.0)
    bench.record("start", 90.0, "ms", at_most=100.0)
    bench.record("batches", 12.0, "")
    assert bench.finish() == 0


def test_one_missed_goal_fails_the_run_and_is_reported(bench: Bench, screen: io.StringIO) -> None:
    bench.record("append", 900.0, "MB/s", at_least=500.0)
    bench.record("start", 101.0, "ms", at_most=100.0)
    assert bench.finish() == 1
    assert "missed: start" in screen.getvalue()


def test_a_run_that_measured_nothing_fails(bench: Bench) -> None:
    assert bench.finish() == 1


def test_the_result_file_holds_figures_and_conditions(bench: Bench, tmp_path: Path) -> None:
    bench.record("append", 900.0, "MB/s", compared_with="dd: 950 MB/s", at_least=500.0)
    bench.record("batches", 12.0, "")
    bench.finish()
    result = json.loads((tmp_path / "log.json").read_text(encoding="utf-8"))
    assert result["name"] == "log"
    assert result["figures"] == [
        {
            "name": "append",
            "value": 900.0,
            "unit": "MB/s",
            "compared_with": "dd: 950 MB/s",
            "goal": {"at_least": 500.0},
            "met": True,
        },
        {
            "name": "batches",
            "value": 12.0,
            "unit": "",
            "compared_with": None,
            "goal": None,
            "met": None,
        },
    ]
    for condition in ("date", "cpu", "cores", "kernel", "python", "headwater", "commit"):
        assert result["conditions"][condition]
    assert result["conditions"]["record_kernel"] in ("compiled", "pure")
    assert len(result["conditions"]["load_average"]) == 3


def test_the_table_fits_eighty_columns_and_shows_value_and_goal(
    bench: Bench, screen: io.StringIO
) -> None:
    bench.record("append of one batch", 1234.5, "MB/s", compared_with="dd", at_least=500.0)
    bench.finish()
    table = [line for line in screen.getvalue().splitlines() if "│" in line]
    assert max(len(line) for line in table) <= 80
    assert any("1,234 MB/s" in line and "≥ 500" in line and "yes" in line for line in table)


def test_a_figure_is_recorded_once(bench: Bench) -> None:
    bench.record("append", 1.0, "s")
    with pytest.raises(ValueError, match="recorded before"):
        bench.record("append", 2.0, "s")


def test_nan_misses_its_goal() -> None:
    assert Figure(name="x", value=math.nan, unit="", at_least=1.0).met is False
    assert Figure(name="x", value=math.nan, unit="", at_most=1.0).met is False


def test_rounds_are_interleaved_and_the_order_rotates() -> None:
    order: list[str] = []
    contenders = {name: (lambda name=name: order.append(name)) for name in ("a", "b", "c")}
    medians = median_of_rounds(contenders, rounds=3)
    assert "".join(order) == "abcbcacab"
    assert list(medians) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.00012, "0.00012"), (0.1234, "0.123"), (12.34, "12.3"), (1234567.8, "1,234,568")],
)
def test_numbers_are_formatted_briefly(value: float, text: str) -> None:
    assert in_short(value) == text


def test_unknown_benchmark_is_rejected_with_the_known_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["lgo"], {"log": Benchmark("The log", ())}) == 2
    assert "unknown benchmark lgo; there are: log" in capsys.readouterr().err


def test_long_benchmarks_run_only_when_named() -> None:
    names = _default_names(BENCHMARKS)
    assert names
    assert "hostile" not in names
    assert set(BENCHMARKS) - set(names) == NAMED_ONLY


def test_every_registered_module_exists() -> None:
    modules = [module for benchmark in BENCHMARKS.values() for module in benchmark.modules]
    paths = [ROOT.joinpath(*module.split(".")).with_suffix(".py") for module in modules]
    assert [path for path in paths if not path.exists()] == []
