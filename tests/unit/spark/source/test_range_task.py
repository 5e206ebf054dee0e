"""The rows of a range, from a real broker."""

from headwater.client import Admin, Producer
from headwater.common.ids import TopicPartition
from headwater.spark.source.batch_plan import OffsetRange
from headwater.spark.source.range_task import RangeTask, rows_of
from headwater.spark.source.source_options import RowType
from headwater.testing import EmbeddedBroker

TEAS = TopicPartition("teas", 0)


def task(broker: EmbeddedBroker, start: int, end: int, *, at_present: bool) -> RangeTask:
    return RangeTask(
        range=OffsetRange(TEAS, start, end),
        client={"bootstrap.servers": broker.bootstrap_servers},
        columns=("value",),
        texts=frozenset(),
        typed={},
        row_type=RowType.RECORD,
        fail_on_data_loss=True,
        poll_timeout_ms=60_000,
        at_present=at_present,
    )


def values(asked: RangeTask) -> list[object]:
    return [value for rows in rows_of(asked) for value in rows["value"].to_pylist()]


def test_a_range_at_present_is_all_that_is_there_when_the_task_runs() -> None:
    with EmbeddedBroker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("teas", partitions=1)
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for value in (b"green", b"black", b"white"):
                producer.send("teas", value)
        assert values(task(broker, 1, 2, at_present=False)) == [b"black"]
        assert values(task(broker, 1, 2, at_present=True)) == [b"green", b"black", b"white"]
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.delete_records({TEAS: 1})
        assert values(task(broker, 0, 3, at_present=True)) == [b"black", b"white"]
