"""Everything that handlers work with, in one place.

`node` puts it together and runs it. Handlers get it as their first argument and keep nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.broker.call import Call
from headwater.broker.deleted_topics import DeletedTopics
from headwater.broker.group_coordinator import GroupCoordinator
from headwater.broker.log_limit import LogLimit
from headwater.broker.marker_writing import MarkerWriting
from headwater.broker.metadata_answers import MetadataAnswers
from headwater.broker.producer_id_block import ProducerIdBlock
from headwater.broker.standing import Standing
from headwater.broker.throttling import Throttling
from headwater.broker.transaction_coordinator import TransactionCoordinator
from headwater.broker.transaction_questions import TransactionQuestions
from headwater.cluster.controller import Controller
from headwater.cluster.effective import StaticConfig
from headwater.cluster.image import ClusterImage
from headwater.model.broker_settings import BrokerSettings
from headwater.model.errors import ErrorCode
from headwater.model.failures import ControllerFenced
from headwater.model.ids import NO_EPOCH, NodeId
from headwater.model.ports import Clock, Dice
from headwater.replication.deadlines import Deadlines
from headwater.replication.fetch_sessions import FetchSessions
from headwater.replication.hosted_partition import HostedPartition
from headwater.replication.hosted_partitions import HostedPartitions
from headwater.security.authorization import Authorizer, Operation, Resource, ResourceKind
from headwater.storage.executor import Executor
from headwater.storage.log_directories import LogDirectories
from headwater.storage.range_reader import RangeReader

if TYPE_CHECKING:
    from headwater.cluster.membership import Membership


@dataclass(slots=True, kw_only=True, eq=False)
class Broker:
    """See the module."""

    static: StaticConfig
    clock: Clock
    dice: Dice
    executor: Executor
    # Validates and recompresses batches: few threads, each of which may hold 100 MiB meanwhile.
    validation_executor: Executor
    standing: Standing
    directories: LogDirectories
    partitions: HostedPartitions
    ranges: RangeReader
    sessions: FetchSessions
    deadlines: Deadlines
    authorizer: Authorizer
    metadata: MetadataAnswers
    producer_ids: ProducerIdBlock
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    questions: TransactionQuestions
    markers: MarkerWriting
    # Runs something when the present callbacks of the loop have run.
    soon: Callable[[Callable[[], None]], object]
    # None as long as nobody has one, which is all that most brokers ever ask.
    quotas: Throttling | None = None
    deleted_topics: DeletedTopics = field(default_factory=DeletedTopics)
    coordinator_warnings: LogLimit = field(default_factory=LogLimit)

    @property
    def image(self) -> ClusterImage:
        return self.standing.image

    @property
    def controller(self) -> Controller:
        """Who decides for the cluster; `ControllerFenced` where another broker does."""
        controller = self.standing.controller
        if controller is None:
            raise ControllerFenced("another broker is the controller")
        return controller

    @property
    def membership(self) -> Membership:
        """This broker's part in a cluster of several, which only such a broker is asked about."""
        membership = self.standing.membership
        assert membership is not None, "a broker that is alone is no member"
        return membership

    @property
    def node_id(self) -> NodeId:
        return self.static.node_id

    @property
    def settings(self) -> BrokerSettings:
        return self.static.settings

    def find(self, topic: str, partition: int) -> HostedPartition | ErrorCode:
        """A partition that is here, or why it is not: the cluster may know it all the same."""
        hosted = self.partitions.find(topic, partition)
        if hosted is not None:
            return hosted
        if self.image.partition(topic, partition) is not None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def find_led(
        self, topic: str, partition: int, current_leader_epoch: int = NO_EPOCH
    ) -> HostedPartition | ErrorCode:
        """A partition that this broker leads, as far as the client knows too (EP-4)."""
        hosted = self.find(topic, partition)
        if isinstance(hosted, ErrorCode):
            return hosted
        return hosted.refuse(current_leader_epoch) or hosted

    def may(self, call: Call, operation: Operation, resource: Resource) -> bool:
        return self.authorizer.authorize(call.requester, operation, resource)

    def may_topic(self, call: Call, operation: Operation, topic: str) -> bool:
        return self.authorizer.authorize(
            call.requester, operation, Resource(ResourceKind.TOPIC, topic)
        )

    def could(self, call: Call, operation: Operation, resource: Resource) -> bool:
        """As `may`, where a no is nothing to write down: another right may do, or less is told."""
        return self.authorizer.allows(call.requester, operation, resource)

    def could_topic(self, call: Call, operation: Operation, topic: str) -> bool:
        return self.authorizer.allows(
            call.requester, operation, Resource(ResourceKind.TOPIC, topic)
        )
