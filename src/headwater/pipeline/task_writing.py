"""What a task of the sink does with its rows.

At least once: send them, and be done when all are acknowledged. Exactly once: in one transaction
send them and note that this part of this batch is written; a repetition finds the note and skips
its rows. Taking over the transactional id comes first. It fences a former attempt that still lives,
and has the coordinator finish what that attempt left half done, so that the note can be trusted.

What a reader would get wrong: this is right only as long as a repeated batch sends the same rows
through the same task. Sources and hash partitioning do; a random repartition does not.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import pyarrow as pa

from headwater.client.errors import KafkaError
from headwater.model.ids import TopicPartition
from headwater.pipeline.batch_identity import BatchIdentity
from headwater.pipeline.outgoing_rows import by_topic
from headwater.pipeline.sink_options import SinkOptions


class Sending(Protocol):
    """What becomes of rows that were sent."""

    def result(self, timeout: float | None = None) -> object:
        """Wait until all are acknowledged, or raise why not."""


class Sender(Protocol):
    """The part of `client.Producer` that is used here."""

    def send_table(self, topic: str, table: pa.Table) -> Sending: ...
    def init_transactions(self) -> None: ...
    def begin_transaction(self) -> None: ...
    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int], group: str
    ) -> None: ...
    def commit_transaction(self) -> None: ...
    def abort_transaction(self) -> None: ...


Rows = Iterable[pa.RecordBatch]
Noted = Callable[[str, TopicPartition], int | None]


def write_at_least_once(rows: Rows, topic: str | None, producer: Sender) -> int:
    """Send all rows; the answer is how many."""
    count = 0
    sent = []
    for batch in rows:
        count += batch.num_rows
        sent += [producer.send_table(name, table) for name, table in by_topic(batch, topic)]
    for each in sent:
        each.result()
    return count


def write_exactly_once(
    rows: Rows,
    options: SinkOptions,
    identity: BatchIdentity,
    *,
    producer: Sender,
    noted: Noted,
) -> int:
    """Send all rows, unless that was done before; the answer is how many were sent now.

    `noted` tells what a group has committed for a partition: the first batch that is not written.
    """
    assert options.marker_topic is not None, "refused when the options were read"
    marker = TopicPartition(options.marker_topic, 0)
    group_id = identity.group_id(options.transactional_id_prefix)
    producer.init_transactions()
    next_batch = noted(group_id, marker)
    if next_batch is not None and next_batch > identity.batch_id:
        _drain(rows)
        return 0
    producer.begin_transaction()
    try:
        count = write_at_least_once(rows, options.topic, producer)
        producer.send_offsets_to_transaction({marker: identity.batch_id + 1}, group_id)
    except BaseException:
        _abort(producer)
        raise
    producer.commit_transaction()
    return count


def _drain(rows: Rows) -> None:
    """Spark takes a task that does not read its input for a broken one."""
    for _ in rows:
        pass


def _abort(producer: Sender) -> None:
    try:
        producer.abort_transaction()
    except KafkaError:
        # Fenced, or out of reach: the next attempt has the coordinator do it.
        return
