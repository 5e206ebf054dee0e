"""A stream joined with static tables: a folder of Parquet and a table of a database."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.testing import EmbeddedBroker
from tests.spark.pipelines import make, read, run_once, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark comes with Derby.
DRIVER = "org.apache.derby.iapi.jdbc.AutoloadedDriver"
URL = "jdbc:derby:memory:shop;create=true"

PIPELINE = """\
version: 1
name: static
sources:
  orders: {{subscribe: static-orders, startingOffsets: earliest,
            decode: {{value: {{json: "id bigint, country string, item bigint"}}}}}}
  countries: {{static: true, format: parquet, path: {folder}/countries}}
  items: {{static: true, format: jdbc, url: "{url}", dbtable: items, driver: {driver}}}
steps:
  named:
    sql: >
      select o.id, c.name country, i.title item from orders o
      left join countries c on o.country = c.code left join items i on o.item = i.number
sinks:
  - {{from: named, topic: static-named}}
"""


def test_a_stream_is_joined_with_parquet_and_jdbc(
    spark: "SparkSession", spark_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    countries = [("de", "Germany"), ("fr", "France")]
    spark.createDataFrame(countries, "code string, name string").write.parquet(
        f"{tmp_path}/countries"
    )
    items = spark.createDataFrame([(1, "tea"), (2, "cup")], "number bigint, title string")
    items.write.format("jdbc").options(url=URL, dbtable="items", driver=DRIVER).save()
    make(spark_broker, "static-orders", "static-named")
    file = tmp_path / "static.yaml"
    file.write_text(PIPELINE.format(folder=tmp_path, url=URL, driver=DRIVER), encoding="utf-8")
    orders = [(1, "de", 2), (2, "xx", 1)]
    values = [
        json.dumps(dict(zip(("id", "country", "item"), each, strict=True))) for each in orders
    ]
    send(spark_broker, "static-orders", [(None, each) for each in values])
    (life,) = run_once(spark, spark_broker, file, tmp_path / "ck")
    assert life.error is None
    found = [json.loads(each.value or b"") for each in read(spark_broker, "static-named")]
    assert sorted(found, key=lambda row: row["id"]) == [
        {"id": 1, "country": "Germany", "item": "cup"},
        {"id": 2, "item": "tea"},
    ]
