"""The fixture `pipeline_test`: what sinks and dead letters got, with controlled event time."""

import logging
from pathlib import Path
from typing import Any

import pytest

from headwater.client import ProducerRecord
from headwater.testing import PipelineFailed, PipelineTestFactory
from headwater.testing.pipelines.pipeline_result import UnknownSink
from headwater.testing.pipelines.pipeline_test import InvalidTest
from headwater.testing.pipelines.source_records import InvalidRow
from tests.tutorials.tutorial_page import blocks

EXAMPLES = Path(__file__).parents[2] / "examples"

LAKE = """\
version: 1
name: lake
bootstrap: broker.example:9093
settings: missing.properties
checkpoint: s3a://bucket/checkpoints
sources:
  orders:
    subscribe: orders
    decode: {value: {json: "id bigint, amount double"}}
  rates: {format: json, path: /no/such/folder, schema: "amount double, name string"}
sinks:
  - {from: orders, format: parquet, path: ./lake/orders}
  - {from: orders, name: table, connector: postgresql, uri: "postgresql://nowhere", table: orders}
  - {from: rates, topic: rates}
"""
MINUTES = "2026-01-01T00:{:02}:00Z"


def test_rows_dead_letters_and_record_parts(pipeline_test: PipelineTestFactory) -> None:
    kit = pipeline_test(EXAMPLES / "filter-and-map.yaml")
    kit.feed("orders", [{"customer": "ada", "id": 1, "amount": 200.0}, {"id": 2, "amount": 5.0}])
    kit.feed("orders", ["{nope", ProducerRecord(topic="orders", key="y", value='{"id": "z"}')])
    result = kit.run()
    assert result["big-orders"] == [{"customer": "ada", "id": 1, "gross": 238.0}]
    (row,) = result["big-orders"]
    assert (row.key, row.headers) == ("ada", {"origin": "orders"})
    assert result.dead_letters.select("key", "value") == [
        {"key": None, "value": "{nope"},
        {"key": "y", "value": '{"id": "z"}'},
    ]
    (letter,) = result.dead_letters.where(key="y")
    assert letter["reason"] == 'value: id is not of type bigint: "z"'
    with pytest.raises(UnknownSink, match="no sink big-order; did you mean big-orders"):
        result["big-order"]
    with pytest.raises(InvalidRow, match="no column amuont; did you mean amount"):
        kit.feed("orders", [{"amuont": 1}])


@pytest.mark.spark
def test_the_watermark_moves_without_an_event(pipeline_test: PipelineTestFactory) -> None:
    kit = pipeline_test(EXAMPLES / "tumbling-windows.toml")
    kit.feed("clicks", [{"page": "a", "at": MINUTES.format(0)}] * 2)
    assert kit.run()["clicks-per-minute"] == []
    kit.advance_watermark(MINUTES.format(1))
    kit.feed("clicks", [{"page": "late", "at": MINUTES.format(0)}])
    kit.feed("clicks", [{"page": "b", "at": MINUTES.format(1)}])
    result = kit.run()
    assert result["clicks-per-minute"].select("page", "clicks") == [{"page": "a", "clicks": 2}]
    assert result.late_rows == 1
    assert result.watermark is not None
    assert result.watermark.isoformat() == "2026-01-01T00:01:00+00:00"
    last = kit.advance_watermark(MINUTES.format(2)).run()
    assert last["clicks-per-minute"].new.select("page") == [{"page": "b"}]
    assert last["clicks-per-minute"].select("page", "clicks") == [
        {"page": "a", "clicks": 2},
        {"page": "b", "clicks": 1},
    ]


def test_a_crash_repeats_the_batch_and_an_exactly_once_sink_has_it_once(
    pipeline_test: PipelineTestFactory,
) -> None:
    kit = pipeline_test(EXAMPLES / "running-totals.yaml")
    kit.feed("transfers", [{"account": "x", "amount": 5}, {"account": "y", "amount": 1}]).crash()
    kit.feed("transfers", [{"account": "x", "amount": -5}])
    result = kit.run()
    assert result["balances"] == [
        {"account": "x", "balance": 5},
        {"account": "y", "balance": 1},
        {},
    ]
    assert result["balances"].latest() == {"y": {"account": "y", "balance": 1}}


@pytest.mark.slow
def test_a_crash_repeats_the_batch_of_a_sink_that_is_not_exactly_once(
    pipeline_test: PipelineTestFactory, tmp_path: Path
) -> None:
    file = tmp_path / "copy.yaml"
    text = "version: 1\nname: copy\nsources:\n  a: {subscribe: a, decode: {value: string}}\n"
    file.write_text(f"{text}sinks:\n  - {{from: a, topic: b}}\n", encoding="utf-8")
    result = pipeline_test(file).feed("a", ["tea"]).crash().run()
    assert result["b"] == [{"value": "tea"}] * 2


@pytest.mark.slow
def test_a_restart_continues_with_another_version_of_the_file(
    pipeline_test: PipelineTestFactory, tmp_path: Path
) -> None:
    text = (EXAMPLES / "running-totals.yaml").read_text(encoding="utf-8")
    changed = tmp_path / "next.yaml"
    changed.write_text(text.replace("tombstone: balance = 0", "headers: {v: \"'2'\"}"), "utf-8")
    kit = pipeline_test(EXAMPLES / "running-totals.yaml")
    kit.feed("transfers", [{"account": "x", "amount": 5}]).restart(changed)
    result = kit.feed("transfers", [{"account": "x", "amount": -5}]).run()
    assert result["balances"].in_order == [
        {"account": "x", "balance": 5},
        {"account": "x", "balance": 0},
    ]
    assert [row.headers for row in result["balances"]] == [{}, {"v": "2"}]


@pytest.mark.spark
def test_files_and_databases_stay_in_the_test(
    pipeline_test: PipelineTestFactory, tmp_path: Path
) -> None:
    file = tmp_path / "lake.yaml"
    file.write_text(LAKE, encoding="utf-8")
    kit = pipeline_test(file).feed("rates", [{"amount": 1.5, "name": "low"}])
    result = kit.feed("orders", [{"id": 1, "amount": 1.5}], key="id").run()
    assert result["orders-to-orders"].select("id", "amount") == [{"id": 1, "amount": 1.5}]
    assert result["table"].select("id", "amount") == [{"id": 1, "amount": 1.5}]
    assert result["rates"] == [{"amount": 1.5, "name": "low"}]
    again = kit.feed("orders", [{"id": 2}]).feed("rates", [{"name": "high"}]).crash().run()
    for sink in ("orders-to-orders", "table"):
        assert again[sink].select("id") == [{"id": 1}, {"id": 2}]
    assert not (tmp_path / "lake").exists()


@pytest.mark.slow
def test_a_stream_is_joined_with_a_table_and_a_tombstone_deletes(
    pipeline_test: PipelineTestFactory,
) -> None:
    kit = pipeline_test(EXAMPLES / "stream-table-join.yaml", partitions=2)
    kit.feed("customers", [{"customer_id": "c1", "name": "Ada"}])
    first = kit.feed("orders", [{"id": 1, "customer": "c1"}]).run()
    assert first["orders-with-names"] == [{"id": 1, "customer": "c1", "name": "Ada"}]
    second = kit.delete("customers", ["c1"]).feed("orders", [{"id": 2, "customer": "c1"}]).run()
    assert second["orders-with-names"].new.select("name") == [{"name": "unknown"}]


def test_what_a_pipeline_does_not_have_is_refused(
    pipeline_test: PipelineTestFactory, tmp_path: Path
) -> None:
    kit = pipeline_test(EXAMPLES / "running-totals.yaml")
    with pytest.raises(InvalidTest, match="no source transfer; did you mean transfers"):
        kit.feed("transfer", [])
    with pytest.raises(InvalidTest, match="has a watermark"):
        kit.advance_watermark("2026-01-01")
    broken = tmp_path / "broken.yaml"
    text = (EXAMPLES / "running-totals.yaml").read_text(encoding="utf-8")
    broken.write_text(text.replace("sum(amount)", "sum(amonut)"), encoding="utf-8")
    with pytest.raises(PipelineFailed, match="amonut"):
        pipeline_test(broken).feed("transfers", [{"account": "x", "amount": 5}]).run()
    assert logging.getLogger("py4j").level == logging.ERROR


@pytest.mark.spark
def test_the_page_about_testing_has_a_test_that_passes(
    pipeline_test: PipelineTestFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = {each.saved_as: each.text for each in blocks("tutorials/testing.md") if each.saved_as}
    (tmp_path / "visits.yaml").write_text(saved["visits.yaml"], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(saved["test_visits.py"], names)
    names["test_visits_per_hour"](pipeline_test)
