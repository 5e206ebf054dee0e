"""Verify or add partitions at transaction coordinators (KIP-890, TX-13).

A partition leader's request goes to the coordinator of the transactional id, on this broker or
another one, as an AddPartitionsToTxn that verifies or adds partitions. `pending_verifications`
decides when to send it, and what happens to the batches that wait for the response.
"""

from collections.abc import Callable

from headwater.broker.coordinators.pending_verifications import (
    FirstBatches,
    OnVerified,
    PendingVerifications,
)
from headwater.broker.coordinators.transaction_coordinator import TransactionCoordinator
from headwater.common.elapsed import has_passed
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId
from headwater.common.ports import Clock
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.coordinator.runtime.pending_responses import Answer, Outcome
from headwater.metadata.cluster_image import NO_LEADER, ClusterImage
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.internal_topics import TRANSACTION_STATE
from headwater.metadata.ports.inter_broker_client import InterBrokerClient, Purpose
from headwater.protocol.older_versions import Message
from headwater.replication.purgatory.timer import Timer
from headwater.replication.replica_manager import ReplicaManager
from headwater.replication.transaction_verification import VerificationRequest

_LEADERS_VERSION = 5


class AddPartitionsToTxnManager:
    """Sends AddPartitionsToTxn for partition leaders. Only for the loop's thread."""

    def __init__(
        self,
        static: StaticConfig,
        *,
        coordinator: TransactionCoordinator,
        clock: Clock,
        timer: Timer,
        partitions: ReplicaManager,
        image: Callable[[], ClusterImage],
        inter_broker_client: InterBrokerClient | None = None,
    ) -> None:
        self._node_id = static.node_id
        self._coordinator = coordinator
        self._partitions = partitions
        self._image = image
        self._inter_broker_client = inter_broker_client
        self._expired_ms: int | None = None
        self.pending = PendingVerifications(self.add_or_verify, clock=clock, timer=timer)
        self.configure(static.settings)

    def tick(self, now_ms: int) -> None:
        """Periodically drop verifications that led to no append."""
        if has_passed(self._expired_ms, self._expiry_interval_ms, now_ms):
            self._expired_ms = now_ms
            self._partitions.expire_verifications(now_ms, self._expiration_ms)

    def configure(self, settings: BrokerSettings) -> None:
        """Apply dynamic configs."""
        self._verifies = settings.transaction_partition_verification_enable
        self._expiration_ms = settings.producer_id_expiration_ms
        self._expiry_interval_ms = settings.producer_id_expiration_check_interval_ms
        self._timeout_ms = settings.request_timeout_ms
        self.pending.configure(settings)

    def needs_coordinator(self, request: VerificationRequest) -> bool:
        """Whether the coordinator must be asked; adding a partition always needs it."""
        return self._verifies or not request.is_verify_only

    def add_or_verify(self, batches: FirstBatches, on_verified: OnVerified) -> None:
        """Send one request; `on_verified` gets an error code for every partition."""
        # Imported with the first request: brokers without transactions do not need it.
        from headwater.broker.coordinators.verification_messages import codes_of, request_of

        def respond(outcome: Outcome) -> None:
            on_verified(codes_of(batches, outcome))

        leader = self._leader_of(batches.transactional_id)
        if leader is None:
            respond(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif leader == self._node_id:
            self._ask_local(batches.transactional_id, request_of(batches), respond)
        else:
            self._ask_remote(leader, request_of(batches), respond)

    def _ask_local(self, transactional_id: str, request: Message, respond: Answer) -> None:
        shard = self._coordinator.shard_of(transactional_id)
        if isinstance(shard, ErrorCode):
            respond(shard)
            return
        shard.handle_request(
            request, version=_LEADERS_VERSION, client_id="", client_host="", answer=respond
        )

    def _ask_remote(self, leader: NodeId, request: Message, respond: Answer) -> None:
        if self._inter_broker_client is None:
            respond(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return

        def failed(_: HeadwaterError) -> None:
            respond(ErrorCode.NETWORK_EXCEPTION)

        self._inter_broker_client.send_request(
            leader,
            request,
            purpose=Purpose.TRANSACTION,
            timeout_ms=self._timeout_ms,
            then=respond,
            on_error=failed,
        )

    def _leader_of(self, transactional_id: str) -> NodeId | None:
        number = self._coordinator.number_of(transactional_id)
        if number is None:
            return None
        state = self._image().partition(TRANSACTION_STATE, number)
        return None if state is None or state.leader == NO_LEADER else state.leader
