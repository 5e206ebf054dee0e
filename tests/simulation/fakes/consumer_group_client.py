"""A consumer-protocol member that behaves like real clients (Java 4.x, librdkafka 2.x).

It has one heartbeat in flight. It revokes partitions that are not in its new assignment before it
takes new ones, and that may take a while. It reports its owned partitions after each
reconciliation, and sends a full heartbeat when it joins or after an error. When fenced, it gives up
all partitions and rejoins under the same id.

In one respect it is more careful. To a coordinator, a partition that is not reported is not owned.
So after a lost response it forgets what it was assigned and has not taken yet, and gets it again.
"""

from dataclasses import dataclass, field

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.assignors.assignor_spec import NO_PARTITIONS, Partitions
from headwater.coordinator.group.consumer import consumer_group_record_values as changes
from headwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.simulation.labs.consumer_group_lab import GROUP

REBALANCE_TIMEOUT_MS = 20_000
_FENCED = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


@dataclass(slots=True)
class Client:
    member_id: str
    names: tuple[str, ...]
    regex: str = ""
    instance_id: str | None = None
    epoch: int = 0
    owned: Partitions = NO_PARTITIONS
    assigned: Partitions = NO_PARTITIONS
    is_alive: bool = True
    in_doubt: bool = True
    told_owned: Partitions | None = field(default=None)
    told_subscription: tuple[tuple[str, ...], str] | None = field(default=None)

    def request(self) -> ConsumerGroupHeartbeatRequest:
        says_all = self.in_doubt or self.epoch == 0
        subscription = self.names, self.regex
        says_subscription = says_all or subscription != self.told_subscription
        is_done = self.owned == self.assigned
        says_owned = says_all or (is_done and self.owned != self.told_owned)
        return ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if says_all else -1,
            subscribed_topic_names=self.names if says_subscription else None,
            subscribed_topic_regex=self.regex if says_subscription else None,
            topic_partitions=self._listed() if says_owned else None,
        )

    def leaving(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
        )

    def _listed(self) -> tuple[TopicPartitions, ...]:
        return tuple(
            TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
            for each in changes.by_topic(self.owned)
        )

    def on_response(
        self, request: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse
    ) -> None:
        """Handle the response to its request."""
        if response.error_code in _FENCED:
            self.epoch, self.in_doubt = 0, True
            self.owned = self.assigned = NO_PARTITIONS
            return
        if response.error_code is ErrorCode.FENCED_INSTANCE_ID:
            self.die()
            return
        if response.error_code is not ErrorCode.NONE:
            assert response.error_code is ErrorCode.UNRELEASED_INSTANCE_ID, response
            return
        self.epoch, self.in_doubt = response.member_epoch, False
        if request.topic_partitions is not None:
            self.told_owned = changes.partitions_of(request.topic_partitions)
        if request.subscribed_topic_names is not None:
            self.told_subscription = request.subscribed_topic_names, self.regex
        if response.assignment is not None:
            self.assigned = changes.partitions_of(response.assignment.topic_partitions)
            self.told_owned = None

    def miss(self) -> None:
        """There was no response, or a retriable error."""
        self.in_doubt = True
        self.assigned &= self.owned

    def reconcile(self) -> None:
        """One step: revoke partitions, or else take new ones."""
        if self.owned - self.assigned:
            self.owned &= self.assigned
        else:
            self.owned = self.assigned

    def die(self) -> None:
        self.is_alive = False
        self.owned = self.assigned = NO_PARTITIONS
