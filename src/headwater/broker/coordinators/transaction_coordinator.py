"""Transaction coordinator of this broker: its shards of `__transaction_state`.

Note: the result of an effect, a producer id or the outcome of markers, goes to the shard that
requested it. If that shard was unloaded meanwhile, its successor has read the log and requests what
it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from headwater.broker.coordinators.led_shards import LedShards, handle_in_shard
from headwater.broker.coordinators.producer_id_manager import ProducerIdManager
from headwater.broker.coordinators.transaction_marker_writer import TransactionMarkerWriter
from headwater.broker.requests.call import Call
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import ProducerId
from headwater.common.ports import Clock
from headwater.coordinator.records.record_serde import TRANSACTION_RECORDS
from headwater.coordinator.runtime.coordinator_context import (
    CoordinatorContext,
    CoordinatorServices,
)
from headwater.coordinator.runtime.coordinator_effects import (
    Effect,
    GenerateProducerId,
    MarkersAnswered,
    ProducerIdGenerated,
    SendMarkers,
)
from headwater.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from headwater.coordinator.runtime.coordinator_shard import CoordinatorShard
from headwater.coordinator.runtime.pending_responses import Answer
from headwater.coordinator.transaction.transaction_settings import TransactionSettings
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.features import TRANSACTION_VERSION, level_of
from headwater.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from headwater.metadata.ports.inter_broker_client import InterBrokerClient
from headwater.protocol.older_versions import Message
from headwater.replication.purgatory.timer import Timer
from headwater.replication.replica_manager import ReplicaManager
from headwater.storage.io.executor import Executor

if TYPE_CHECKING:
    from headwater.broker.coordinators.transaction_marker_channel import TransactionMarkerChannel

TransactionEvent = ProducerIdGenerated | MarkersAnswered


class TransactionCoordinator:
    """Finds the shard of a transactional id. Only for the loop's thread."""

    def __init__(
        self,
        static: StaticConfig,
        *,
        clock: Clock,
        executor: Executor,
        timer: Timer,
        partitions: ReplicaManager,
        image: Callable[[], ClusterImage],
        producer_ids: ProducerIdManager,
        markers: TransactionMarkerWriter,
        inter_broker_client: InterBrokerClient | None = None,
    ) -> None:
        self._static = static
        self._clock = clock
        self._image = image
        self._producer_ids = producer_ids
        self._marker_writer = markers
        self._inter_broker_client = inter_broker_client
        self._settings = transaction_settings(static, image())
        self._led: LedShards[TransactionEvent] = LedShards(
            CoordinatorServices(
                topic=TRANSACTION_STATE,
                make=self._make,
                codec=TRANSACTION_RECORDS,
                clock=clock,
                timer=timer,
                perform=self._perform,
            ),
            executor=executor,
            partitions=partitions,
            image=image,
        )

    @property
    def settings(self) -> TransactionSettings:
        return self._settings

    def changed(self, image: ClusterImage) -> None:
        """Apply metadata changes; the replica manager has already applied them."""
        self._settings = transaction_settings(self._static, image)
        self._led.follow(image)

    @property
    def runtime(self) -> CoordinatorRuntime[TransactionEvent]:
        return self._led.runtime

    def load_some(self, limit_ms: int) -> None:
        """Load shards before the first request needs them, which also starts their timers."""
        self._led.runtime.load_some(limit_ms)

    def close(self) -> None:
        self._led.close()

    def number_of(self, transactional_id: str) -> int | None:
        """Return the id's partition, or None while there is no topic."""
        return self._led.number_of(transactional_id)

    def shard_of(self, transactional_id: str) -> CoordinatorContext[TransactionEvent] | ErrorCode:
        """Return the shard that coordinates an id, or an error if another broker has it."""
        return self._led.find(transactional_id)

    def shards(self) -> list[CoordinatorContext[TransactionEvent]]:
        """Return all shards on this broker, and start loading all of them."""
        return self._led.all()

    def handle_request(
        self, transactional_id: str, request: Message, call: Call, answer: Answer
    ) -> None:
        shard = self.shard_of(transactional_id)
        if isinstance(shard, ErrorCode):
            answer(shard)
        else:
            handle_in_shard(shard, request, call, answer)

    @cached_property
    def _markers(self) -> TransactionMarkerChannel:
        # Imported with the first marker: brokers without transactions do not need it.
        from headwater.broker.coordinators.transaction_marker_channel import (
            TransactionMarkerChannel,
        )

        return TransactionMarkerChannel(
            node_id=self._static.node_id,
            writing=self._marker_writer,
            image=self._image,
            clock=self._clock,
            inter_broker_client=self._inter_broker_client,
            timeout_ms=self._static.settings.request_timeout_ms,
        )

    def _make(self, number: int, leader_epoch: int) -> CoordinatorShard[TransactionEvent]:  # noqa: ARG002
        # Imported with the first shard.
        from headwater.coordinator.transaction.transaction_coordinator_shard import (
            TransactionCoordinatorShard,
        )

        return TransactionCoordinatorShard(lambda: self._settings, leader_epoch)

    def _perform(self, shard: CoordinatorContext[TransactionEvent], effect: Effect) -> None:
        on_answered = shard.event_handler()
        match effect:
            case GenerateProducerId(asked):

                def taken(outcome: ProducerId | ErrorCode) -> None:
                    on_answered(ProducerIdGenerated(asked, outcome, self._clock.now_ms()))

                self._producer_ids.generate(taken)
            case SendMarkers():
                self._markers.send(effect, on_answered)
            case _:
                raise AssertionError(
                    f"unexpected effect of transaction shard {shard.name}: {effect}"
                )


def transaction_settings(static: StaticConfig, image: ClusterImage) -> TransactionSettings:
    """Return the settings of transactions, from broker settings and metadata."""
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
