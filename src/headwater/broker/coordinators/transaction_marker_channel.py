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

OnAnswered = Callable[[MarkersAnswered], None]


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

    def send(self, sending: SendMarkers, on_answered: OnAnswered) -> None:
        addressed = address((sending,), self._leader_of, now_ms=self.clock.now_ms())
        for answered in addressed.answered:
            on_answered(answered)
        for leader, parts in addressed.by_leader.items():
            if leader == self.node_id:
                for part in parts:
                    self._write(part, on_answered)
            else:
                self._send_remote(leader, parts, on_answered)

    def _write(self, sending: SendMarkers, on_answered: OnAnswered) -> None:
        marker = Marker(
            producer=TransactionalProducer(sending.producer_id, sending.producer_epoch),
            coordinator_epoch=sending.coordinator_epoch,
            client_version=sending.client_version,
            is_commit=sending.is_commit,
        )
        for partition in sending.partitions:
            self.writing.write(
                marker, partition, partial(self._written, sending, partition, on_answered)
            )

    def _written(
        self,
        sending: SendMarkers,
        partition: TopicPartition,
        on_answered: OnAnswered,
        code: ErrorCode,
    ) -> None:
        on_answered(
            MarkersAnswered(
                transactional_id=sending.transactional_id,
                send_id=sending.send_id,
                outcomes=((partition, outcome_of(code)),),
                now_ms=self.clock.now_ms(),
            )
        )

    def _send_remote(
        self, leader: NodeId, sendings: Sequence[SendMarkers], on_answered: OnAnswered
    ) -> None:
        def report_all(answers: Sequence[MarkersAnswered]) -> None:
            for answered in answers:
                on_answered(answered)

        def answered(response: Message) -> None:
            assert isinstance(response, WriteTxnMarkersResponse)
            report_all(outcomes_of(sendings, response, now_ms=self.clock.now_ms()))

        def failed_request(_: HeadwaterError) -> None:
            report_all(failed(sendings, now_ms=self.clock.now_ms()))

        if self.inter_broker_client is None:
            report_all(failed(sendings, now_ms=self.clock.now_ms()))
            return
        self.inter_broker_client.send_request(
            leader,
            request_of(sendings),
            purpose=Purpose.TRANSACTION,
            timeout_ms=self.timeout_ms,
            then=answered,
            on_error=failed_request,
        )

    def _leader_of(self, partition: TopicPartition) -> NodeId | NoLeader:
        image = self.image()
        state = image.partition(*partition)
        if state is None:
            return NoLeader.DELETED
        if state.leader == NO_LEADER or state.leader not in image.brokers:
            return NoLeader.UNKNOWN_FOR_NOW
        return state.leader
