"""Members of a consumer group in a simulated cluster, whose coordinator moves.

They send one request at a time, revoke what they must, and commit for what they own.

Note: two members may both believe that they own a partition, as long as one of them talks to a
coordinator that does not know yet that it is none. They must not own it under the same epoch, since
the epoch fences commits.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, Final

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId
from headwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from headwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headwater.protocol.older_versions import Message
from tests.simulation.labs.lab_node import ClusterLab
from tests.simulation.worlds.cluster_acknowledgements import ClientGuarantees, Commit
from tests.simulation.worlds.cluster_clients import GROUPS, TOPIC, Client

HEARTBEAT_MS: Final = 300
_REBALANCE_MS: Final = 6_000
_LEAVING_EPOCH: Final = -1


class Member(Client, ABC):
    """Common to members of both protocols: they commit for what they own."""

    group: ClassVar[str]

    def __init__(self, lab: ClusterLab, told: ClientGuarantees, number: int) -> None:
        self._member_id = ""
        # The member epoch, or the generation.
        self._epoch = 0
        self._owned: tuple[int, ...] = ()
        # Whether the coordinator may not know what is owned here.
        self._in_doubt = True
        super().__init__(lab, told, number)

    @property
    def is_done(self) -> bool:
        """Whether it is a member in good standing."""
        return self._epoch > 0 and not self._in_doubt

    def _failed(self, error: HeadwaterError) -> None:
        self._in_doubt = True
        self.trouble = str(error)
        self._rest(HEARTBEAT_MS)

    def _refused(self, code: ErrorCode) -> None:
        self._in_doubt = True
        super()._refused(code)

    def _own(self, partitions: Sequence[int]) -> None:
        self._owned = tuple(sorted(partitions))
        self.told.own(self.group, self._epoch, self._owned, self._member_id)

    def _commit(self, coordinator: NodeId) -> None:
        number = self._rng.choice(self._owned)
        commit = self.told.begin_commit(self.group, number)
        topic = self._lab.store.image.topics[TOPIC]
        place = OffsetCommitRequestPartition(partition_index=number, committed_offset=commit.offset)
        request = OffsetCommitRequest(
            group_id=self.group,
            member_id=self._member_id,
            generation_id_or_member_epoch=self._epoch,
            topics=(
                OffsetCommitRequestTopic(name=TOPIC, topic_id=topic.topic_id, partitions=(place,)),
            ),
        )
        self._ask(coordinator, request, lambda response: self._committed(commit, response))

    def _committed(self, commit: Commit, response: Message) -> None:
        assert isinstance(response, OffsetCommitResponse)
        ((answer,),) = (topic.partitions for topic in response.topics)
        if answer.error_code:
            self._refused(answer.error_code)
        else:
            commit.is_acknowledged = True
            self._rest(HEARTBEAT_MS)


class GroupMember(Member):
    """A consumer-protocol member (KIP-848)."""

    group = "members"

    def __init__(self, lab: ClusterLab, told: ClientGuarantees, number: int) -> None:
        super().__init__(lab, told, number)
        self._member_id = f"m{number}"

    def turn(self) -> None:
        chance = self._rng.random()
        if chance < 0.05 and self._epoch > 0 and not self.is_leaving:
            self._with_coordinator(self.group, GROUPS, self._leave)
        elif chance < 0.4 and self._owned and not self.is_leaving:
            self._with_coordinator(self.group, GROUPS, self._commit)
        else:
            self._with_coordinator(self.group, GROUPS, self._beat)

    def _beat(self, coordinator: NodeId) -> None:
        says_all = self._in_doubt or self._epoch == 0
        topic_id = self._lab.store.image.topics[TOPIC].topic_id
        owned = TopicPartitions(topic_id=topic_id, partitions=self._owned)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self._member_id,
            member_epoch=self._epoch,
            rebalance_timeout_ms=_REBALANCE_MS if says_all else -1,
            subscribed_topic_names=(TOPIC,) if says_all else None,
            topic_partitions=(owned,) if self._owned else (),
        )
        self._ask(coordinator, request, self._on_heartbeat)

    def _on_heartbeat(self, response: Message) -> None:
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        code = response.error_code
        if code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self._epoch, self._owned = 0, ()
        if code:
            self._refused(code)
            return
        self._epoch, self._in_doubt = response.member_epoch, False
        if response.assignment is not None:
            given = response.assignment.topic_partitions
            self._own([each for topic in given for each in topic.partitions])
        else:
            self._own(self._owned)
        self._rest(HEARTBEAT_MS)

    def _leave(self, coordinator: NodeId) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self._member_id, member_epoch=_LEAVING_EPOCH
        )
        self._owned = ()
        self._ask(coordinator, request, self._left)

    def _left(self, response: Message) -> None:
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        self._epoch, self._in_doubt = 0, True
        self._rest(HEARTBEAT_MS)
