"""The broker's components, as passed to every request handler.

`node` creates it. Handlers get it as their first argument and hold no state of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.broker.coordinators.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from headwater.broker.coordinators.group_coordinator import GroupCoordinator
from headwater.broker.coordinators.producer_id_manager import ProducerIdManager
from headwater.broker.coordinators.transaction_coordinator import TransactionCoordinator
from headwater.broker.coordinators.transaction_marker_writer import TransactionMarkerWriter
from headwater.broker.handlers.data.deleted_topics import DeletedTopics
from headwater.broker.handlers.data.metadata_response import MetadataResponses
from headwater.broker.node.controller_access import ControllerAccess
from headwater.broker.requests.api_routes import CONTROLLER_APIS
from headwater.broker.requests.call import Call
from headwater.broker.requests.log_limit import LogLimit
from headwater.broker.requests.quota_managers import QuotaManagers
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ControllerFenced
from headwater.common.ids import NO_EPOCH, NodeId
from headwater.common.ports import Clock, Random
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.controller.deferred_event_queue import DeferredEventQueue
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.effective_configs import StaticConfig
from headwater.protocol.api_key import ApiKey
from headwater.replication.fetch.fetch_session import FetchSessionCache
from headwater.replication.partition import Partition
from headwater.replication.purgatory.timer import Timer
from headwater.replication.replica_manager import ReplicaManager
from headwater.security.authorization.authorizer import (
    Authorizer,
    Operation,
    Resource,
    ResourceKind,
)
from headwater.storage.io.executor import Executor
from headwater.storage.io.file_range_reader import FileRangeReader
from headwater.storage.log_manager.log_manager import LogManager

if TYPE_CHECKING:
    from headwater.broker.node.cluster_membership import ClusterMembership


@dataclass(slots=True, kw_only=True, eq=False)
class Broker:
    """The components of one broker."""

    static: StaticConfig
    clock: Clock
    rng: Random
    executor: Executor
    # Validates and recompresses batches: few threads, because each may hold 100 MiB.
    validation_executor: Executor
    controller_access: ControllerAccess
    directories: LogManager
    partitions: ReplicaManager
    ranges: FileRangeReader
    sessions: FetchSessionCache
    timer: Timer
    authorizer: Authorizer
    metadata: MetadataResponses
    producer_ids: ProducerIdManager
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    add_partitions_to_txn_manager: AddPartitionsToTxnManager
    markers: TransactionMarkerWriter
    # Calls a function once the current callbacks of the loop have run.
    call_soon: Callable[[Callable[[], None]], object]
    # None while the cluster has no quotas, so that requests skip all quota checks.
    quotas: QuotaManagers | None = None
    deleted_topics: DeletedTopics = field(default_factory=DeletedTopics)
    coordinator_warnings: LogLimit = field(default_factory=LogLimit)

    @property
    def image(self) -> ClusterImage:
        return self.controller_access.image

    @property
    def forwarded_apis(self) -> frozenset[ApiKey]:
        return CONTROLLER_APIS

    @property
    def is_controller(self) -> bool:
        return self.controller_access.controller is not None

    @property
    def controller(self) -> DeferredEventQueue:
        """The controller's event queue; `ControllerFenced` if it is on another broker."""
        controller = self.controller_access.controller
        if controller is None:
            raise ControllerFenced("another broker is the controller")
        return controller

    @property
    def membership(self) -> ClusterMembership:
        """This broker's cluster membership; only for brokers in a ZooKeeper cluster."""
        membership = self.controller_access.membership
        assert membership is not None, "a standalone broker has no cluster membership"
        return membership

    @property
    def node_id(self) -> NodeId:
        return self.static.node_id

    @property
    def settings(self) -> BrokerSettings:
        return self.static.settings

    def find(self, topic: str, partition: int) -> Partition | ErrorCode:
        """Return the local replica; NOT_LEADER_OR_FOLLOWER if only other brokers have one."""
        hosted = self.partitions.find(topic, partition)
        if hosted is not None:
            return hosted
        if self.image.partition(topic, partition) is not None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def find_led(
        self, topic: str, partition: int, current_leader_epoch: int = NO_EPOCH
    ) -> Partition | ErrorCode:
        """Return the partition if this broker leads it in the given leader epoch (EP-4)."""
        hosted = self.find(topic, partition)
        if isinstance(hosted, ErrorCode):
            return hosted
        return hosted.leadership_error(current_leader_epoch) or hosted

    def is_authorized(self, call: Call, operation: Operation, resource: Resource) -> bool:
        return self.authorizer.authorize(call.requester, operation, resource)

    def is_authorized_for_topic(self, call: Call, operation: Operation, topic: str) -> bool:
        return self.authorizer.authorize(
            call.requester, operation, Resource(ResourceKind.TOPIC, topic)
        )

    def is_allowed(self, call: Call, operation: Operation, resource: Resource) -> bool:
        """As `is_authorized`, without logging a denial.

        Use it where a denial is not an error: another permission may suffice, or the response only
        omits something.
        """
        return self.authorizer.allows(call.requester, operation, resource)

    def is_allowed_for_topic(self, call: Call, operation: Operation, topic: str) -> bool:
        return self.authorizer.allows(
            call.requester, operation, Resource(ResourceKind.TOPIC, topic)
        )
