"""Run a Spark session that writes its loaded classes to an archive file.

`python -m headwater.spark.archive_session FILE`

It runs a little of everything that pipelines do, so that the archive has these classes.

Note: Java writes the file when it exits, which is after Spark has stopped and takes a while, so
this process waits for it.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from headwater.spark.class_archive import writing_option
from headwater.spark.spark_session import COLLECTOR, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIMEOUT_S: Final = 300
_ROWS: Final = 100


class _Numbers(SimpleDataSourceStreamReader):
    """A hundred numbers, once."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"next": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        return iter([(each,) for each in range(start["next"], _ROWS)]), {"next": _ROWS}

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[tuple[int]]:
        return iter([(each,) for each in range(start["next"], end["next"])])


class NumbersSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "headwater-numbers"

    def schema(self) -> str:
        return "number bigint"

    def simpleStreamReader(self, schema: Any) -> _Numbers:  # noqa: ARG002, N802
        return _Numbers()


def main(arguments: list[str]) -> None:
    (path,) = arguments
    options = {"spark.driver.extraJavaOptions": f"{COLLECTOR} {writing_option(Path(path))}"}
    spark = session("local[2]", options, app_name="headwater-prepare")
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory(prefix="headwater-spark-") as folder:
        _work(spark, Path(folder))
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    java: subprocess.Popen[bytes] = gateway.proc
    spark.stop()
    gateway.shutdown()
    assert java.stdin is not None
    java.stdin.close()
    java.wait(_TIMEOUT_S)


def _work(spark: "SparkSession", folder: Path) -> None:
    spark.dataSource.register(NumbersSource)
    numbers = spark.readStream.format(NumbersSource.name()).load()
    counted = (
        numbers.selectExpr("number", "cast(number as timestamp) as at", "number % 7 as part")
        .mapInArrow(_same, "number bigint, at timestamp, part bigint")
        .withWatermark("at", "1 second")
        .groupBy("part")
        .agg({"number": "sum"})
        .selectExpr("to_json(struct(*)) as value")
    )
    query = (
        counted.writeStream.outputMode("complete")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .foreachBatch(lambda batch, _: batch.write.format("noop").mode("append").save())
        .start()
    )
    query.processAllAvailable()
    query.stop()
    rows = spark.range(_ROWS).selectExpr("id", "from_json(concat('[', id, ']'), 'array<int>') as j")
    rows.write.parquet(str(folder / "rows"))
    spark.read.parquet(str(folder / "rows")).join(spark.range(_ROWS), "id").collect()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    main(sys.argv[1:])
