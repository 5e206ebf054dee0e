"""Run the same queries with Spark's Kafka connector and with Headwater's, in one session.

Note: a query runs once for each format, and only the results are compared. Rows are sorted, because
Spark guarantees no order between tasks.
"""

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from tests.compat.foreign import load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

THEIRS: Final = "kafka"
OURS: Final = "headwater"
TIMEOUT_S: Final = 240

Options = Mapping[str, str]
Row = tuple[object, ...]
Offsets = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """Results of a streaming query: its rows, and the end offsets of its batches."""

    rows: list[Row]
    ends: list[Offsets]


@dataclass(frozen=True, slots=True)
class SparkSides:
    """Queries with both formats on one broker."""

    spark: "SparkSession"
    servers: str

    def load(self, format_name: str, options: Options) -> "DataFrame":
        return self._read(self.spark.read, format_name, options)

    def rows(self, format_name: str, options: Options) -> list[Row]:
        return plain(self.load(format_name, options))

    def tasks(self, format_name: str, options: Options) -> list[list[Row]]:
        """The rows of a batch query, by task."""
        from pyspark.sql.functions import spark_partition_id

        numbered = self.load(format_name, options).withColumn("task", spark_partition_id())
        found: dict[object, list[Row]] = {}
        for *row, task in plain(numbered):
            found.setdefault(task, []).append(tuple(row))
        return sorted(found.values(), key=repr)

    def schema(self, format_name: str, options: Options) -> "StructType":
        return self.load(format_name, options).schema

    def stream(self, format_name: str, options: Options, folder: Path) -> Streamed:
        """Read what is there, continuing from an earlier query's checkpoint in the folder.

        The rows are those of all queries that have used the folder.
        """
        frame = self._read(self.spark.readStream, format_name, options)
        writer = frame.writeStream.format("parquet").option("path", str(folder / "rows"))
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(TIMEOUT_S), "a query that does not end"
        rows = self.spark.read.schema(frame.schema).parquet(str(folder / "rows"))
        return Streamed(rows=plain(rows), ends=list(logged_ends(folder / "checkpoint")))

    def write(
        self, format_name: str, frame: "DataFrame", options: Options, mode: str = "append"
    ) -> None:
        writer: Any = frame.write.format(format_name).mode(mode)
        _with(writer, {"kafka.bootstrap.servers": self.servers, **options}).save()

    def new_topic(self, partitions: int = 2, prefix: str = "spark") -> str:
        """A topic that keeps its records, whatever their timestamps."""
        name = f"{prefix}-{uuid.uuid4().hex[:10]}"
        topic = NewTopic(name=name, partitions=partitions, configs={"retention.ms": "-1"})
        with Admin(bootstrap_servers=self.servers) as admin:
            admin.create_topics([topic])
        return name

    def fill(self, topic: str, first: int, count: int, *, partitions: int = 2) -> None:
        """The same records on every broker, most of them in the first partition."""
        with Producer(bootstrap_servers=self.servers) as producer:
            for number in range(first, first + count):
                producer.send(
                    topic,
                    None if number % 7 == 3 else b"value %d" % number,
                    key=None if number % 5 == 1 else b"key %d" % number,
                    partition=number % partitions if number % 3 == 0 else 0,
                    timestamp=timestamp_of(number),
                    headers=[("h", b"%d" % number), ("h", b"")] if number % 2 else [],
                )

    def written(self, topic: str) -> list[Row]:
        """The contents of a topic, sorted. A record without a key may be in any partition."""
        partitions = [TopicPartition(topic, number) for number in range(2)]
        with Consumer(bootstrap_servers=self.servers, isolation_level="read_committed") as reader:
            reader.assign(partitions)
            reader.seek_to_beginning(partitions)
            ends = reader.end_offsets(partitions)
            found: list[Row] = []
            while any(reader.position(each) < ends[each] for each in partitions):
                found += [
                    (each.partition if each.key else None, each.key, each.value, [*each.headers])
                    for each in reader.poll(1.0)
                ]
        return sorted(found, key=repr)

    def _read(self, reader: Any, format_name: str, options: Options) -> "DataFrame":
        chosen = {"kafka.bootstrap.servers": self.servers, **options}
        frame: DataFrame = _with(reader.format(format_name), chosen).load()
        return frame


def timestamp_of(number: int) -> int:
    return 1_700_000_000_000 + 1_000 * number


def refuses(query: Callable[..., object], *arguments: object) -> bool:
    from pyspark.errors import PySparkException

    # What Spark's JVM raises without having prepared for it.
    unforeseen: type[Exception] = load("py4j.protocol").Py4JJavaError
    try:
        query(*arguments)
    except (PySparkException, unforeseen):
        return True
    return False


def offsets(topic: str, *numbers: int) -> str:
    """The offsets of a topic's partitions, as options take them."""
    return json.dumps({topic: {str(each): number for each, number in enumerate(numbers)}})


def plain(frame: "DataFrame") -> list[Row]:
    rows = [tuple(_plain(value) for value in row) for row in frame.collect()]
    return sorted(rows, key=repr)


def logged_ends(checkpoint: Path) -> Iterator[Offsets]:
    """The end of each batch, from the query's offset log."""
    files = [path for path in (checkpoint / "offsets").iterdir() if path.name.isdigit()]
    for path in sorted(files, key=lambda each: int(each.name)):
        found = json.loads(path.read_text().splitlines()[-1])
        # Our first batch also remembers where it began, which theirs keeps in a file of its own.
        yield {topic: ends for topic, ends in found.items() if topic != "@start"}


def _plain(value: object) -> object:
    if isinstance(value, bytearray | bytes):
        return bytes(value)
    if isinstance(value, list):
        return [tuple(_plain(part) for part in each) for each in value]
    return value


def _with(builder: Any, options: Options) -> Any:
    for name, value in options.items():
        builder = builder.option(name, value)
    return builder
