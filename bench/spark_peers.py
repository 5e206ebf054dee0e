"""Spark data source on confluent-kafka, for comparison.

It is what one writes by hand: a task consumes its range with librdkafka and builds Arrow batches of
ten thousand messages, or produces its rows. The options are `servers`, `topic` and, for the source,
`partitions`.

Note: Spark's workers import this module by name, so its parent directory has to be on their path.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import confluent_kafka
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

AT_ONCE: Final = 10_000
POLL_S: Final = 30.0


class ConfluentSource(DataSource):
    """`format("confluent")`."""

    @classmethod
    def name(cls) -> str:
        return "confluent"

    def schema(self) -> str:
        return "key binary, value binary, partition int, offset bigint"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return ConfluentReader(dict(self.options))

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: ARG002, N802
        return ConfluentWriter(dict(self.options))


class Range(InputPartition):
    """Offsets of one task."""

    def __init__(self, partition: int, start: int, end: int) -> None:
        super().__init__((partition, start, end))
        self.partition, self.start, self.end = partition, start, end


class ConfluentReader(DataSourceStreamReader):
    """Reads everything available as one batch."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._partitions = range(int(options["partitions"]))

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {str(number): 0 for number in self._partitions}

    def latestOffset(self, start: Any, limit: Any) -> dict[str, int]:  # noqa: ARG002, N802
        consumer = self._consumer()
        topic = self._options["topic"]
        ends = {}
        for number in self._partitions:
            asked = confluent_kafka.TopicPartition(topic, number)
            ends[str(number)] = consumer.get_watermark_offsets(asked, timeout=POLL_S)[1]
        consumer.close()
        return ends

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [Range(int(number), start[number], end[number]) for number in end]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        consumer = self._consumer()
        topic, number = self._options["topic"], partition.partition
        consumer.assign([confluent_kafka.TopicPartition(topic, number, partition.start)])
        left = partition.end - partition.start
        while left > 0:
            messages = consumer.consume(min(AT_ONCE, left), POLL_S)
            left -= len(messages)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([each.key() for each in messages], pa.binary()),
                    pa.array([each.value() for each in messages], pa.binary()),
                    pa.array([number] * len(messages), pa.int32()),
                    pa.array([each.offset() for each in messages], pa.int64()),
                ],
                names=["key", "value", "partition", "offset"],
            )
        consumer.close()

    def _consumer(self) -> confluent_kafka.Consumer:
        return confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._options["servers"],
                "group.id": "bench",
                "enable.auto.commit": False,
                "log_level": 3,
            }
        )


class ConfluentWriter(DataSourceStreamArrowWriter):
    """At least once: a task is done when all is acknowledged."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    # PySpark's own Arrow writer class has another row type than its base, too.
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self._options["servers"], "linger.ms": 20, "log_level": 3}
        )
        topic = self._options["topic"]
        for rows in iterator:
            keys, values = rows.column("key").to_pylist(), rows.column("value").to_pylist()
            for key, value in zip(keys, values, strict=True):
                while True:
                    try:
                        producer.produce(topic, value, key)
                        break
                    except BufferError:
                        producer.poll(0.1)
            producer.poll(0)
        producer.flush()
        return WriterCommitMessage()

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        """Nothing to do: all is acknowledged."""

    def abort(self, messages: Any, batchId: int) -> None:  # noqa: N803
        """Nothing to do: sent records stay."""
