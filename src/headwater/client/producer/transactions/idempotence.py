"""Producer id and epoch of an idempotent producer; recovery from sequence gaps.

Without a transactional id the producer requests an id once and bumps its epoch itself (KIP-360).
`TransactionManager` uses the coordinator instead.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from headwater.client.errors import KafkaError, KafkaTimeout, error_for
from headwater.client.network.cluster_client import ClusterClient
from headwater.client.producer.partition_queues import PartitionQueue
from headwater.client.producer.producer_batch import ProducerBatch
from headwater.client.producer.producer_settings import ProducerSettings
from headwater.client.producer.transactions.partition_sequences import GAPS
from headwater.client.producer.transactions.producer_id_and_epoch import ProducerIdAndEpoch
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

_EPOCH_MAX: Final = 2**15 - 1
_NO_TRANSACTION_TIMEOUT_MS: Final = 2**31 - 1


class Idempotence:
    """The producer id and epoch, and the partitions with sequence gaps."""

    def __init__(self, cluster: ClusterClient, settings: ProducerSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._task: asyncio.Task[None] | None = None
        self._gapped: dict[PartitionQueue, None] = {}
        self._is_renewed = False
        self.identity = ProducerIdAndEpoch()
        self.fatal: KafkaError | None = None
        """A fatal error; nothing can be sent any more."""
        self.on_fatal: Callable[[KafkaError], None] | None = None

    def may_send(self, queue: PartitionQueue) -> bool:
        """Whether the first batch of a partition may be sent now."""
        return self.fatal is None and queue.sequences.may_send(queue.batches[0], self.identity)

    def assign(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Assign a sequence to a batch that is sent."""
        queue.sequences.assign(batch, self.identity)

    def acked(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        queue.sequences.acked(batch)
        if queue.sequences.has_gap:
            self._gapped[queue] = None

    def failed(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError) -> None:
        """A batch failed for good. If it had a sequence, the partition may have a gap."""
        del error
        queue.sequences.failed(batch)
        if queue.sequences.has_gap:
            self._gapped[queue] = None

    def may_retry(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError) -> bool:
        """Whether to retry a batch that the broker rejected for its sequence.

        A batch behind another one only has to wait. The first one needs new sequences.
        """
        if error.code not in GAPS:
            return False
        if queue.sequences.is_first(batch):
            queue.sequences.has_gap = True
            self._gapped[queue] = None
        return True

    def newest_produce(self, newest: int | None) -> int | None:
        """The newest version of Produce that may be used."""
        return newest

    def ensure_producer_id(self, pump: Callable[[], None]) -> None:
        """Get a producer id if there is none; bump the epoch for partitions with gaps."""
        if self.fatal is not None:
            return
        if not self.identity.is_known:
            if self._task is None:
                self._task = self._cluster.loop.create_task(self._acquire(pump))
            return
        idle = [queue for queue in self._gapped if queue.in_flight_count == 0]
        if not idle:
            return
        if self._is_renewed:
            self._is_renewed = False
        elif self.identity.epoch >= _EPOCH_MAX:
            self.identity = ProducerIdAndEpoch()
            self._is_renewed = True
            self.ensure_producer_id(pump)
            return
        else:
            self.identity = ProducerIdAndEpoch(self.identity.producer_id, self.identity.epoch + 1)
        for queue in idle:
            del self._gapped[queue]
            queue.sequences.begin(self.identity)

    def add_partitions(self, pump: Callable[[], None]) -> None:
        """Add partitions to the transaction; nothing to do without transactions."""

    def fail(self, error: KafkaError) -> None:
        """Set a fatal error. Only the first counts: failing the other batches repeats it."""
        if self.fatal is not None:
            return
        self.fatal = error
        if self.on_fatal is not None:
            self.on_fatal(error)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _acquire(self, pump: Callable[[], None]) -> None:
        """Request a producer id with retries. Waiting records fail by their own timeouts."""
        deadline_ms = self._cluster.clock.steady_ms() + self._settings.delivery_timeout_ms
        try:
            self.identity = await self._cluster.retrying.until(deadline_ms, self._request_id)
        except KafkaTimeout:
            pass
        except KafkaError as error:
            self.fail(error)
        finally:
            self._task = None
        pump()

    async def _request_id(self) -> ProducerIdAndEpoch:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT_MS
        )
        node_id = self._cluster.least_loaded()
        response = await self._cluster.call(node_id, request, InitProducerIdResponse)
        if response.error_code is not ErrorCode.NONE:
            raise error_for(response.error_code)
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
