"""The tests beside the examples in folders: one scenario of event streaming each."""

import importlib.util
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from headwater.testing import PipelineTestFactory
from tests import postgresql

EXAMPLES = Path(__file__).parents[2] / "examples"
TESTS = sorted(EXAMPLES.glob("*/test_*.py"))
# Quick enough to be run with each version of Spark.
QUICK = {"registration"}


def parameter(file: Path) -> object:
    mark = pytest.mark.spark if file.parent.name in QUICK else pytest.mark.slow
    return pytest.param(file, marks=[mark], id=file.parent.name)


def functions(file: Path) -> list[Callable[[PipelineTestFactory], None]]:
    spec = importlib.util.spec_from_file_location(f"example_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [each for name, each in vars(module).items() if name.startswith("test_")]


def test_there_are_the_scenarios_of_event_streaming() -> None:
    assert [each.parent.name for each in TESTS] == [
        "click_log",
        "patient_monitoring",
        "payments",
        "registration",
        "sensor_alarms",
        "vehicle_tracking",
    ]


@pytest.mark.parametrize("file", [parameter(each) for each in TESTS])
def test_example_passes_its_test(
    file: Path, pipeline_test: PipelineTestFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    (test,) = functions(file)
    test(pipeline_test)


@pytest.mark.slow
def test_counts_of_clicks_are_in_postgresql_once_after_a_crash(
    pipeline_test: PipelineTestFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headwater.connect.postgresql_client import connect

    monkeypatch.chdir(EXAMPLES / "click_log")
    with postgresql.server() as uri:
        pipeline = pipeline_test("click-log.yaml").options("database", uri=uri)
        click = {"page": "/", "visitor": "v", "at": "2026-01-01T08:00:30Z"}
        pipeline.feed("clicks", [click] * 7).advance_watermark("2026-01-01T08:01:00Z")
        pipeline.run()
        pipeline.run()
        assert pipeline.crash().run()["database"].select("clicks") == [{"clicks": 7}]
        with closing(connect(uri)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute("SELECT page, clicks, visitors FROM clicks_per_minute")
            rows = cursor.fetch_arrow_table().to_pylist()
        assert rows == [{"page": "/", "clicks": 7, "visitors": 1}]


def test_a_decoupled_registration_does_not_wait_for_the_sms_service() -> None:
    """By what it calls, since timings are the measurement's and not the test's."""
    spec = importlib.util.spec_from_file_location("measure", EXAMPLES / "registration/measure.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    called: list[str] = []
    vars(module)["store_user"] = lambda: called.append("store")
    vars(module)["send_sms"] = lambda: called.append("sms")
    found = module.measure(2)
    assert called == ["store", "store", "sms", "store", "sms", "store", "store"]
    assert set(found) == {"directly", "decoupled"}
