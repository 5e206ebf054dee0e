"""Describe the quorum of a KRaft cluster and change its voters.

Any broker passes these requests to the active controller. A cluster on ZooKeeper does not support
them: they fail with UnsupportedVersion.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.client.admin.admin_calls import Calls, checked, error_of, only
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicId
from headwater.protocol.messages import add_raft_voter, describe_quorum
from headwater.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)

_TOPIC = "__cluster_metadata"
_PARTITION = 0
_WHAT = "quorum"


@dataclass(frozen=True, slots=True)
class RaftVoterEndpoint:
    """A listener of a controller."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.listener}://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """A voter or observer, as the leader sees it; timestamps are -1 if unknown."""

    replica_id: int
    directory_id: TopicId
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int
    endpoints: tuple[RaftVoterEndpoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumInfo:
    """The state of the metadata quorum."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


class QuorumCalls(Calls):
    """The quorum methods of the admin client."""

    async def describe_metadata_quorum(self, *, timeout: float | None = None) -> QuorumInfo:
        """The leader, voters and observers of the metadata log."""
        deadline_ms = self._deadline_ms(timeout)
        partition = describe_quorum.PartitionData(partition_index=_PARTITION)
        request = describe_quorum.DescribeQuorumRequest(
            topics=(describe_quorum.TopicData(topic_name=_TOPIC, partitions=(partition,)),)
        )

        async def attempt() -> describe_quorum.DescribeQuorumResponse:
            answer = await self._call_any(
                request, describe_quorum.DescribeQuorumResponse, deadline_ms
            )
            codes = [each.error_code for topic in answer.topics for each in topic.partitions]
            _raise_if_moved([answer.error_code, *codes])
            return answer

        answer = await self._retried(deadline_ms, attempt)
        checked(answer.error_code, answer.error_message, _WHAT)
        found = only(only(answer.topics).partitions)
        checked(found.error_code, found.error_message, _WHAT)
        endpoints = {
            each.node_id: tuple(
                RaftVoterEndpoint(one.name, one.host, one.port) for one in each.listeners
            )
            for each in answer.nodes
        }
        return QuorumInfo(
            leader_id=found.leader_id,
            leader_epoch=found.leader_epoch,
            high_watermark=found.high_watermark,
            voters=tuple(_replica(each, endpoints) for each in found.current_voters),
            observers=tuple(_replica(each, {}) for each in found.observers),
        )

    async def add_raft_voter(
        self,
        voter_id: int,
        directory_id: TopicId,
        endpoints: Iterable[RaftVoterEndpoint],
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Make a controller that observes the metadata log a voter.

        The directory id is in `meta.properties` of its metadata log directory.
        """
        deadline_ms = self._deadline_ms(timeout)
        request = add_raft_voter.AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=self._left_ms(deadline_ms),
            voter_id=voter_id,
            voter_directory_id=directory_id,
            listeners=tuple(
                add_raft_voter.Listener(name=each.listener, host=each.host, port=each.port)
                for each in endpoints
            ),
        )

        async def attempt() -> add_raft_voter.AddRaftVoterResponse:
            answer = await self._call_any(request, add_raft_voter.AddRaftVoterResponse, deadline_ms)
            _raise_if_moved([answer.error_code])
            return answer

        answer = await self._retried(deadline_ms, attempt)
        checked(answer.error_code, answer.error_message, f"voter {voter_id}")

    async def remove_raft_voter(
        self,
        voter_id: int,
        directory_id: TopicId,
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Remove a voter. Its process may still run; it then observes the metadata log."""
        deadline_ms = self._deadline_ms(timeout)
        request = RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory_id
        )

        async def attempt() -> RemoveRaftVoterResponse:
            answer = await self._call_any(request, RemoveRaftVoterResponse, deadline_ms)
            _raise_if_moved([answer.error_code])
            return answer

        answer = await self._retried(deadline_ms, attempt)
        checked(answer.error_code, answer.error_message, f"voter {voter_id}")


def _raise_if_moved(codes: Iterable[ErrorCode]) -> None:
    """Raise a retriable error if the broker has asked a node that does not lead."""
    for code in codes:
        if code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER):
            raise error_of(code, "the active controller has moved", _WHAT)


def _replica(
    state: describe_quorum.ReplicaState,
    endpoints: dict[int, tuple[RaftVoterEndpoint, ...]],
) -> QuorumReplica:
    return QuorumReplica(
        replica_id=state.replica_id,
        directory_id=state.replica_directory_id,
        log_end_offset=state.log_end_offset,
        last_fetch_timestamp=state.last_fetch_timestamp,
        last_caught_up_timestamp=state.last_caught_up_timestamp,
        endpoints=endpoints.get(state.replica_id, ()),
    )
