"""Write the rows of one task of the sink.

At least once: send them and wait for all acknowledgements. Exactly once: in one transaction, send
them and commit an offset that marks this part of this batch as written. A repeated task finds the
marker and skips its rows. InitProducerId comes first: it fences an older attempt that is still
alive and completes its transaction, so that the marker can be trusted.

Invariant: a repeated batch sends the same rows through the same task. Sources and hash partitioning
do; a random repartition does not.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

import pyarrow as pa

from headwater.common.ids import TopicPartition
from headwater.spark.sink.row_encoder import by_topic


class PendingSend(Protocol):
    """Future of sent rows."""

    def result(self, timeout: float | None = None) -> object:
        """Wait until all are acknowledged, or raise the error."""


class TaskProducer(Protocol):
    """The part of `client.Producer` that is used here."""

    def send_table(self, topic: str, table: pa.Table) -> PendingSend: ...
    def init_transactions(self) -> None: ...
    def begin_transaction(self) -> None: ...
    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int], group: str
    ) -> None: ...
    def commit_transaction(self) -> None: ...
    def abort_transaction(self) -> None: ...


Rows = Iterable[pa.RecordBatch]


def write_at_least_once(rows: Rows, topic: str | None, producer: TaskProducer) -> int:
    """Send all rows; return their number."""
    count = 0
    sent = []
    for batch in rows:
        count += batch.num_rows
        sent += [producer.send_table(name, table) for name, table in by_topic(batch, topic)]
    for each in sent:
        each.result()
    return count
