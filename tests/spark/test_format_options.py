"""The tables of options that pipelines check are the same as in Spark."""

from typing import TYPE_CHECKING

import pytest

from headwater.pipelines.spec.spark_formats import FORMATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SQL = "org.apache.spark.sql"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("csv", f"{_SQL}.catalyst.csv.CSVOptions"),
        ("json", f"{_SQL}.catalyst.json.JSONOptions"),
        ("xml", f"{_SQL}.catalyst.xml.XmlOptions"),
        ("text", f"{_SQL}.execution.datasources.text.TextOptions"),
        ("orc", f"{_SQL}.execution.datasources.orc.OrcOptions"),
        ("parquet", f"{_SQL}.execution.datasources.parquet.ParquetOptions"),
    ],
)
def test_every_option_of_spark_is_known(spark: "SparkSession", name: str, options: str) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    found = jvm.java.lang.Class.forName(f"{options}$").getField("MODULE$").get(None)
    theirs = set(found.getAllOptions().mkString(" ").split())
    ours = FORMATS[name]
    assert ours.static is not None
    assert ours.sink is not None
    known = ours.static | ours.sink
    missing = {each for each in theirs - known if not each.startswith(ours.prefixes or ("\0",))}
    assert missing == set()
