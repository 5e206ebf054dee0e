"""A stream joined with a changelog that is kept as state, over several runs of a pipeline."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.testing import EmbeddedBroker
from tests.spark.pipelines import make, read, run_once, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """\
version: 1
name: lookup
sources:
  orders:
    subscribe: lookup-orders
    startingOffsets: earliest
    decode: {value: {json: "id bigint, customer string"}}
  customers:
    subscribe: lookup-customers
    table: true
    decode: {key: {string: customer_id}, value: {json: "name string, city string"}}
steps:
  named:
    lookup: {stream: orders, table: customers, on: {customer: customer_id}}
  shown: {sql: "select id, name, city from named"}
sinks:
  - {from: shown, topic: lookup-named, key: id, delivery: exactly-once}
"""


def _order(number: int, customer: str) -> tuple[str | None, str | None]:
    return None, json.dumps({"id": number, "customer": customer})


def _customer(key: str, name: str, city: str) -> tuple[str | None, str | None]:
    return key, json.dumps({"name": name, "city": city})


def test_rows_see_the_latest_value_of_their_key(
    spark: "SparkSession", spark_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    make(spark_broker, "lookup-orders", "lookup-customers", "lookup-named")
    file = tmp_path / "lookup.yaml"
    file.write_text(PIPELINE, encoding="utf-8")

    def named() -> dict[int, tuple[str | None, str | None]]:
        (life,) = run_once(spark, spark_broker, file, tmp_path / "ck")
        assert life.error is None
        values = [json.loads(each.value or b"") for each in read(spark_broker, "lookup-named")]
        rows = {each["id"]: (each.get("name"), each.get("city")) for each in values}
        assert len(rows) == len(values)
        return rows

    send(
        spark_broker,
        "lookup-customers",
        [
            _customer("a", "Ann", "Rome"),
            _customer("b", "Bob", "Oslo"),
            _customer("a", "Ann", "Bern"),
        ],
    )
    send(spark_broker, "lookup-orders", [_order(1, "a"), _order(2, "b"), _order(3, "unknown")])
    first = {1: ("Ann", "Bern"), 2: ("Bob", "Oslo"), 3: (None, None)}
    assert named() == first
    # Only changes are read now: the rest is state.
    send(spark_broker, "lookup-customers", [("a", None), _customer("c", "Cleo", "Nice")])
    send(spark_broker, "lookup-orders", [_order(4, "a"), _order(5, "b"), _order(6, "c")])
    assert named() == {**first, 4: (None, None), 5: ("Bob", "Oslo"), 6: ("Cleo", "Nice")}
