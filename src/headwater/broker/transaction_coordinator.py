"""The transactions that this broker coordinates: which shard is whose, and what shards order.

What a reader would get wrong: an answer to something that a shard has ordered, a producer id or
what became of markers, is for the machine that ordered it. If that was thrown away meanwhile, its
successor has read the log and orders for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from headwater.broker.call import Call
from headwater.broker.led_shards import LedShards, ask_shard
from headwater.broker.marker_writing import MarkerWriting
from headwater.broker.producer_id_block import ProducerIdBlock
from headwater.cluster.colleagues import Colleagues
from headwater.cluster.effective import StaticConfig
from headwater.cluster.features import TRANSACTION_VERSION, level_of
from headwater.cluster.image import ClusterImage
from headwater.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from headwater.coordinator.effects import (
    Effect,
    MarkersAnswered,
    ProducerIdTaken,
    SendMarkers,
    TakeProducerId,
)
from headwater.coordinator.hosted_shard import HostedShard, ShardTools
from headwater.coordinator.pending_answers import Answer
from headwater.coordinator.records.codec import TRANSACTION_RECORDS
from headwater.coordinator.shard import Shard
from headwater.coordinator.transactions.transaction_settings import TransactionSettings
from headwater.model.errors import ErrorCode
from headwater.model.ids import ProducerId
from headwater.model.ports import Clock
from headwater.replication.deadlines import Deadlines
from headwater.replication.hosted_partitions import HostedPartitions
from headwater.storage.executor import Executor
from headwater.wire.lifting import Message

if TYPE_CHECKING:
    from headwater.broker.marker_sending import MarkerSending

Told = ProducerIdTaken | MarkersAnswered


class TransactionCoordinator:
    """See the module. For the loop's thread only."""

    def __init__(
        self,
        static: StaticConfig,
        *,
        clock: Clock,
        executor: Executor,
        deadlines: Deadlines,
        partitions: HostedPartitions,
        image: Callable[[], ClusterImage],
        producer_ids: ProducerIdBlock,
        markers: MarkerWriting,
        colleagues: Colleagues | None = None,
    ) -> None:
        self._static = static
        self._clock = clock
        self._image = image
        self._producer_ids = producer_ids
        self._writing = markers
        self._colleagues = colleagues
        self._settings = transaction_settings(static, image())
        self._led: LedShards[Told] = LedShards(
            ShardTools(
                topic=TRANSACTION_STATE,
                make=self._make,
                codec=TRANSACTION_RECORDS,
                clock=clock,
                deadlines=deadlines,
                perform=self._perform,
            ),
            executor=executor,
            partitions=partitions,
            image=image,
        )

    @property
    def settings(self) -> TransactionSettings:
        """What is in force now."""
        return self._settings

    def changed(self, image: ClusterImage) -> None:
        """The cluster has agreed on something; the partitions that are here know it already."""
        self._settings = transaction_settings(self._static, image)
        self._led.follow(image)

    def load_some(self, limit_ms: int) -> None:
        """Have transactions ready before somebody asks for them, and their timers running."""
        self._led.runtime.load_some(limit_ms)

    def close(self) -> None:
        self._led.close()

    def number_of(self, transactional_id: str) -> int | None:
        """The partition that an id falls into, or None while there is no topic."""
        return self._led.number_of(transactional_id)

    def shard_of(self, transactional_id: str) -> HostedShard[Told] | ErrorCode:
        """Who looks after a transactional id, or why nobody does here."""
        return self._led.find(transactional_id)

    def shards(self) -> list[HostedShard[Told]]:
        """All that are here, and all that are not loaded yet begin to be."""
        return self._led.all()

    def ask(self, transactional_id: str, request: Message, call: Call, answer: Answer) -> None:
        shard = self.shard_of(transactional_id)
        if isinstance(shard, ErrorCode):
            answer(shard)
        else:
            ask_shard(shard, request, call, answer)

    @cached_property
    def _markers(self) -> MarkerSending:
        # Loaded with the first marker: a broker without transactions does not pay for their code.
        from headwater.broker.marker_sending import MarkerSending

        return MarkerSending(
            node_id=self._static.node_id,
            writing=self._writing,
            image=self._image,
            clock=self._clock,
            colleagues=self._colleagues,
            timeout_ms=self._static.settings.request_timeout_ms,
        )

    def _make(self, number: int, leader_epoch: int) -> Shard[Told]:  # noqa: ARG002
        # And this with the first shard.
        from headwater.coordinator.transactions.transaction_shard import TransactionShard

        return TransactionShard(lambda: self._settings, leader_epoch)

    def _perform(self, shard: HostedShard[Told], effect: Effect) -> None:
        tell = shard.hearing()
        match effect:
            case TakeProducerId(asked):

                def taken(outcome: ProducerId | ErrorCode) -> None:
                    tell(ProducerIdTaken(asked, outcome, self._clock.now_ms()))

                self._producer_ids.take(taken)
            case SendMarkers():
                self._markers.send(effect, tell)
            case _:
                raise AssertionError(f"{shard.name} orders what nobody does: {effect}")


def transaction_settings(static: StaticConfig, image: ClusterImage) -> TransactionSettings:
    """The broker's settings, and what the cluster says."""
    settings = static.settings
    offsets = image.topics.get(CONSUMER_OFFSETS)
    return TransactionSettings(
        max_timeout_ms=settings.transaction_max_timeout_ms,
        expiration_ms=settings.transactional_id_expiration_ms,
        offsets_partition_count=(
            settings.offsets_topic_num_partitions if offsets is None else len(offsets.partitions)
        ),
        server_version=level_of(image, TRANSACTION_VERSION),
        expiry_interval_ms=settings.transaction_remove_expired_transaction_cleanup_interval_ms,
        abort_retry_ms=settings.transaction_abort_timed_out_transaction_cleanup_interval_ms,
    )
