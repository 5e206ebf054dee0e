"""One replica without a network: what it does on an event."""

from __future__ import annotations

import random
from collections.abc import Sequence

from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from headwater.protocol.messages.vote import PartitionData as VotePartition
from headwater.protocol.messages.vote import TopicData, VoteRequest, VoteResponse
from headwater.protocol.older_versions import Message
from headwater.raft.election_state import ElectionState, LeaderAndEpoch
from headwater.raft.kafka_raft_client import KafkaRaftClient
from headwater.raft.quorum_config import QuorumConfig
from headwater.raft.raft_core import RaftIdentity
from headwater.raft.raft_events import (
    Effect,
    LeaderRefused,
    Poll,
    RequestReceived,
    ResponseReceived,
    SendRequest,
    SendResponse,
)
from headwater.raft.raft_messages import vote_response
from headwater.raft.voter_set import Endpoint, ReplicaKey, VoterNode, VoterSet
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from tests.simulation.fakes.lossy_raft_log import LossyRaftLog
from tests.simulation.fakes.seeded_random import SeededRandom

LISTENER = "CONTROLLER"


def static_voters(count: int) -> VoterSet:
    return VoterSet.of(
        VoterNode(key=ReplicaKey(each), endpoints=(Endpoint(LISTENER, f"node-{each}", 9093),))
        for each in range(count)
    )


class RaftLab:
    """Replica 0 of a quorum of three, kraft.version 0."""

    def __init__(
        self,
        *,
        epochs: Sequence[int] = (),
        stored: ElectionState | None = None,
        voters: VoterSet | None = None,
    ) -> None:
        self.now_ms = 1_000
        self.log = LossyRaftLog()
        for epoch in epochs:
            self.log.append_as_leader(bytearray(a_batch()), epoch)
        self.log.flush()
        self.client = KafkaRaftClient(
            RaftIdentity(
                key=ReplicaKey(0),
                cluster_id="c",
                listener_name=LISTENER,
                endpoints=(Endpoint(LISTENER, "node-0", 9093),),
                static_voters=voters or static_voters(3),
            ),
            config=QuorumConfig(),
            log=self.log,
            random=SeededRandom(random.Random(1)),
        )
        self._calls = 0
        self.effects = self.client.initialize(stored, self.now_ms)

    def wait(self, span_ms: int) -> list[Effect]:
        self.now_ms += span_ms
        self.effects = self.client.decide(Poll(self.now_ms))
        return self.effects

    def request(self, message: Message) -> Message | None:
        """The response, or None while the request waits."""
        self._calls += 1
        event = RequestReceived(call_id=self._calls, message=message, now_ms=self.now_ms)
        self.effects = self.client.decide(event)
        for each in self.effects:
            if isinstance(each, SendResponse) and each.call_id == self._calls:
                return each.message
        return None

    def refuse_leader(self, leader: LeaderAndEpoch) -> None:
        event = LeaderRefused(leader=leader, now_ms=self.now_ms)
        self.effects = self.client.decide(event)

    def respond(self, sent: SendRequest, message: Message | None) -> list[Effect]:
        event = ResponseReceived(
            correlation_id=sent.correlation_id, message=message, now_ms=self.now_ms
        )
        self.effects = self.client.decide(event)
        return self.effects

    def sent(self, kind: type) -> list[SendRequest]:
        return [
            each
            for each in self.effects
            if isinstance(each, SendRequest) and isinstance(each.message, kind)
        ]

    def become_leader(self) -> None:
        """Win the pre-vote and the vote of replica 1."""
        self.wait(5_000)
        for _ in range(2):
            (asked,) = [each for each in self.sent(VoteRequest) if each.destination.id == 1]
            assert isinstance(asked.message, VoteRequest)
            epoch = asked.message.topics[0].partitions[0].replica_epoch
            self.respond(asked, granted(epoch))
        assert self.client.is_leader


def a_batch(value: bytes = b"value") -> bytes:
    return build_batch([Record(value=value, timestamp=0)])


def granted(epoch: int) -> VoteResponse:
    return vote_response(ErrorCode.NONE, LeaderAndEpoch(None, epoch), is_granted=True, node=None)


def a_vote(
    candidate: int, epoch: int, *, end: tuple[int, int] = (0, 0), is_pre_vote: bool = False
) -> VoteRequest:
    """`end` is an end offset and the epoch of the record before it."""
    partition = VotePartition(
        replica_epoch=epoch,
        replica_id=candidate,
        last_offset=end[0],
        last_offset_epoch=end[1],
        pre_vote=is_pre_vote,
    )
    topic = TopicData(topic_name="__cluster_metadata", partitions=(partition,))
    return VoteRequest(cluster_id="c", voter_id=0, topics=(topic,))


def fetched(response: Message | None) -> PartitionData:
    assert isinstance(response, FetchResponse)
    return response.responses[0].partitions[0]


__all__ = ["FetchRequest", "RaftLab", "a_batch", "a_vote", "fetched", "granted", "static_voters"]
