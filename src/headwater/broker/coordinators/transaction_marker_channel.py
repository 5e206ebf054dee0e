"""Send transaction markers to partition leaders (TransactionMarkerChannelManager).

Markers for this broker's own partitions are written directly; others are sent with WriteTxnMarkers.

Invariant: every partition of a `SendMarkers` gets exactly one outcome, because the shard never
sends a marker again while it may still be in flight.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from headwater.broker.coordinators.transaction_marker_writer import Marker, TransactionMarkerWriter
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId, TopicPartition
from headwater.common.ports import Clock
from headwater.coordinator.runtime.coordinator_effects import (
    MarkersAnswered,
    SendMarkers,
    TransactionalProducer,
)
from headwater.coordinator.transaction.transaction_marker_delivery import (
    NoLeader,
    address,
    failed,
    outcome_of,
    outcomes_of,
    request_of,
)
from headwater.metadata.cluster_image import NO_LEADER, ClusterImage
from headwater.metadata.ports.inter_broker_client import InterBrokerClient, Purpose
from headwater.protocol.messages.write_txn_markers import WriteTxnMarkersResponse
from headwater.protocol.older_versions import Message

Tell = Callable[[MarkersAnswered], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMarkerChannel:
    """Sends transaction markers to partition leaders.

    Without an inter-broker client, markers for other brokers fail and are retried.
    """

    node_id: NodeId
    writing: TransactionMarkerWriter
    image: Callable[[], ClusterImage]
    clock: Clock
    inter_broker_client: InterBrokerClient | None
    timeout_ms: int

    def send(self, sending: SendMarkers, tell: Tell) -> None:
        addressed = address((sending,), self._leader_of, now_ms=self.clock.now_ms())
        for answered in addressed.answered:
            tell(answered)
        for leader, parts in addressed.by_leader.items():
            if leader == self.node_id:
                for part in parts:
                    self._write(part, tell)
            else:
                self._send_remote(leader, parts, tell)

    def _write(self, sending: SendMarkers, tell: Tell) -> None:
        marker = Marker(
            producer=TransactionalProducer(sending.producer_id, sending.producer_epoch),
            coordinator_epoch=sending.coordinator_epoch,
            client_version=sending.client_version,
            is_commit=sending.is_commit,
        )
        for partition in sending.partitions:
            self.writing.write(marker, partition, partial(self._written, sending, partition, tell))

    def _written(
        self, sending: SendMarkers, partition: TopicPartition, tell: Tell, code: ErrorCode
    ) -> None:
        tell(
            MarkersAnswered(
                transactional_id=sending.transactional_id,
                send_id=sending.send_id,
                outcomes=((partition, outcome_of(code)),),
                now_ms=self.clock.now_ms(),
            )
        )

    def _send_remote(self, leader: NodeId, sendings: Sequence[SendMarkers], tell: Tell) -> None:
        def tell_all(answers: Sequence[MarkersAnswered]) -> None:
            for answered in answers:
                tell(answered)

        def answered(response: Message) -> None:
            assert isinstance(response, WriteTxnMarkersResponse)
            tell_all(outcomes_of(sendings, response, now_ms=self.clock.now_ms()))

        def failed_request(_: HeadwaterError) -> None:
            tell_all(failed(sendings, now_ms=self.clock.now_ms()))

        if self.inter_broker_client is None:
            tell_all(failed(sendings, now_ms=self.clock.now_ms()))
            return
        self.inter_broker_client.ask(
            leader,
            request_of(sendings),
            purpose=Purpose.TRANSACTION,
            timeout_ms=self.timeout_ms,
            then=answered,
            otherwise=failed_request,
        )

    def _leader_of(self, partition: TopicPartition) -> NodeId | NoLeader:
        image = self.image()
        state = image.partition(*partition)
        if state is None:
            return NoLeader.DELETED
        if state.leader == NO_LEADER or state.leader not in image.brokers:
            return NoLeader.UNKNOWN_FOR_NOW
        return state.leader
