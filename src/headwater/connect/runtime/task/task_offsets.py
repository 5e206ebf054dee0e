"""Read a task's position from the offset topic, and write it in transactions.

Note: the offset topic also has transactions of other connectors. A read is complete only when it
has passed everything that was written before it, so it waits for open transactions.
"""

from collections.abc import Mapping
from typing import Any, Final

from headwater.client import Consumer, Producer, TopicPartition
from headwater.connect.runtime.connect_records import (
    OffsetRecord,
    decode_record,
    encode_record,
)
from headwater.connect.runtime.task.task_setup import TaskSetup

# A transaction that is never completed blocks readers of committed records for this long.
_TRANSACTION_TIMEOUT_MS: Final = 300_000
_POLL_S: Final = 0.5


class TaskOffsets:
    """A transactional producer, and one partition of a connector's offsets.

    Creating it fences earlier tasks of the connector.
    """

    def __init__(
        self, setup: TaskSetup, partition: Mapping[str, Any], overrides: Mapping[str, str]
    ) -> None:
        self._setup = setup
        self._partition = partition
        self.producer = Producer(
            {
                "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                **setup.client,
                **setup.producer,
                **overrides,
                "client.id": f"connector-producer-{setup.connector}-0",
                "transactional.id": setup.transactional_id,
            }
        )
        self.producer.init_transactions()

    def read(self) -> dict[str, Any]:
        """The last committed position; empty at the beginning."""
        topic, found = self._setup.offset_topic, {}
        with Consumer(self._reading("read_uncommitted")) as all_records:
            partitions = [TopicPartition(topic, n) for n in all_records.partitions_for(topic)]
            ends = all_records.end_offsets(partitions)
        with Consumer(self._reading("read_committed")) as committed:
            committed.assign(partitions)
            committed.seek_to_beginning()
            while any(committed.position(each) < end for each, end in ends.items()):
                for record in committed.poll(_POLL_S):
                    if (offset := self._own(record.key, record.value)) is not None:
                        found = dict(offset.offset or {})
        return found

    def send(self, position: Mapping[str, Any]) -> None:
        """Write a position in the transaction that has begun."""
        key, value = encode_record(OffsetRecord(self._setup.connector, self._partition, position))
        self.producer.send(self._setup.offset_topic, value, key=key)

    def close(self) -> None:
        self.producer.close()

    def _reading(self, isolation: str) -> dict[str, object]:
        return {
            **self._setup.client,
            **self._setup.consumer,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }

    def _own(self, key: bytes | None, value: bytes | None) -> OffsetRecord | None:
        try:
            found = decode_record(key, value)
        except ValueError:
            return None
        is_own = (
            isinstance(found, OffsetRecord)
            and found.connector == self._setup.connector
            and dict(found.partition) == dict(self._partition)
        )
        return found if is_own and isinstance(found, OffsetRecord) else None
