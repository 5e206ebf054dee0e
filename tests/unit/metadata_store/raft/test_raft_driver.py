"""The serial shell of a replica: order of effects, shared syncs, failures."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import StorageError
from headwater.metadata_store.raft.raft_driver import RaftDriver, Responded, Synced
from headwater.protocol.messages.vote import VoteRequest, VoteResponse
from headwater.protocol.older_versions import Message
from headwater.raft.election_state import ElectionState, LeaderAndEpoch
from headwater.raft.kafka_raft_client import KafkaRaftClient
from headwater.raft.quorum_config import QuorumConfig
from headwater.raft.raft_core import RaftIdentity
from headwater.raft.raft_messages import vote_request
from headwater.raft.replicated_log import LogAppendInfo, OffsetAndEpoch
from headwater.raft.voter_set import Endpoint, Node, ReplicaKey, VoterNode, VoterSet
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from tests.simulation.fakes.lossy_raft_log import LossyRaftLog
from tests.simulation.fakes.seeded_random import SeededRandom

Story = list[Any]


@dataclass
class HeldIo:
    """`RaftIo` whose syncs end when the test says so."""

    log: LossyRaftLog
    story: Story = field(default_factory=list)
    syncs: list[Synced] = field(default_factory=list)
    stored: ElectionState | None = None
    time_ms: int = 0

    def now_ms(self) -> int:
        return self.time_ms

    def flush(self, then: Synced) -> None:
        self.story.append("flush")
        self.syncs.append(then)

    def write_election_state(
        self,
        election: ElectionState,
        *,
        kraft_version: int,  # noqa: ARG002
        voter_ids: tuple[int, ...],  # noqa: ARG002
        then: Synced,
    ) -> None:
        self.story.append("election state")
        self.stored = election
        self.syncs.append(then)

    def send_request(self, node: Node, message: Message, then: Responded) -> None:  # noqa: ARG002
        self.story.append(type(message).__name__)

    def poll_at(self, due_ms: int) -> None:
        pass

    def sync(self, error: StorageError | None = None) -> None:
        self.syncs.pop(0)(error)

    def handle_commit(self, start_offset: int, end_offset: int) -> None:
        self.story.append(("commit", start_offset, end_offset))

    def handle_load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        self.story.append(snapshot_id)

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        self.story.append(leader)


def a_driver(
    voter_count: int, broken: Callable[[Exception], None] | None = None
) -> tuple[RaftDriver, HeldIo, list[StorageError]]:
    log = LossyRaftLog()
    voters = VoterSet.of(
        VoterNode(key=ReplicaKey(each), endpoints=(Endpoint("CONTROLLER", f"node-{each}", 9093),))
        for each in range(voter_count)
    )
    identity = RaftIdentity(
        key=ReplicaKey(0),
        cluster_id="a-cluster",
        listener_name="CONTROLLER",
        endpoints=voters.voters[0].endpoints,
        static_voters=voters,
    )
    client = KafkaRaftClient(
        identity, config=QuorumConfig(), log=log, random=SeededRandom(random.Random(1))
    )
    io = HeldIo(log)
    failures: list[StorageError] = []
    driver = RaftDriver(client, io=io, listener=io, failed=failures.append, broken=broken)
    return driver, io, failures


def a_leader(
    broken: Callable[[Exception], None] | None = None,
) -> tuple[RaftDriver, HeldIo, list[StorageError]]:
    driver, io, failures = a_driver(1, broken)
    driver.start(None)
    while io.syncs:
        io.sync()
    assert driver.client.is_leader
    io.story.clear()
    return driver, io, failures


def batch(text: str) -> bytearray:
    return bytearray(build_batch([Record(value=text.encode(), timestamp=0)]))


def test_a_start_syncs_the_log_before_anything_is_sent() -> None:
    driver, io, _ = a_driver(3)
    driver.start(None)
    driver.poll()
    assert io.story == ["flush"]
    io.time_ms = 10_000
    io.sync()
    assert len(io.story) > 1


def test_a_vote_is_answered_when_the_election_state_is_durable() -> None:
    driver, io, _ = a_driver(3)
    driver.start(None)
    io.sync()
    while io.syncs:
        io.sync()
    answers: list[Message] = []
    request: VoteRequest = vote_request(
        cluster_id="a-cluster",
        voter=ReplicaKey(0),
        candidate=ReplicaKey(1),
        epoch=5,
        end=OffsetAndEpoch(0, 0),
        is_pre_vote=False,
    )
    driver.receive(request, answers.append)
    while io.syncs:
        assert answers == []
        io.sync()
    (response,) = answers
    assert isinstance(response, VoteResponse)
    assert response.topics[0].partitions[0].vote_granted
    assert io.stored == ElectionState(epoch=5, voted_key=ReplicaKey(1))


def test_appends_that_wait_for_a_sync_share_the_next_one() -> None:
    driver, io, _ = a_leader()
    epoch = driver.client.leader_and_epoch.epoch
    results: list[tuple[ErrorCode, int]] = []

    def appended(error: ErrorCode, offset: int) -> None:
        results.append((error, offset))

    for text in ("first", "second", "third"):
        driver.append(epoch, batch(text), 1, appended)
    assert io.story == ["flush"]
    io.sync()
    assert io.story == ["flush", ("commit", 1, 2), "flush"]
    io.sync()
    assert io.story == ["flush", ("commit", 1, 2), "flush", ("commit", 2, 4)]
    assert results == [(ErrorCode.NONE, 1), (ErrorCode.NONE, 2), (ErrorCode.NONE, 3)]


def test_an_append_of_another_epoch_is_refused() -> None:
    driver, io, _ = a_leader()
    results: list[tuple[ErrorCode, int]] = []
    driver.append(99, batch("late"), 1, lambda error, offset: results.append((error, offset)))
    assert results == [(ErrorCode.NOT_CONTROLLER, -1)]
    assert io.story == []


def test_a_replica_stops_for_good_when_a_sync_fails() -> None:
    """A second sync may succeed although the data is lost."""
    driver, io, failures = a_leader()
    epoch = driver.client.leader_and_epoch.epoch
    driver.append(epoch, batch("lost"), 1, lambda *_: None)
    results: list[ErrorCode] = []
    driver.append(epoch, batch("waits"), 1, lambda error, _: results.append(error))
    error = StorageError("cannot sync")
    io.sync(error)
    assert failures == [error]
    assert driver.failure is error
    assert results == [ErrorCode.NOT_CONTROLLER]
    driver.poll()
    assert io.story == ["flush"]


def test_a_replica_stops_when_an_append_fails() -> None:
    driver, io, failures = a_leader()
    error = StorageError("no space left")

    def full(batches: bytearray, epoch: int) -> LogAppendInfo:  # noqa: ARG001
        raise error

    driver.client._core.log = _Failing(full)  # type: ignore[assignment]
    driver.append(driver.client.leader_and_epoch.epoch, batch("a"), 1, lambda *_: None)
    assert failures == [error]
    assert io.story == []


@dataclass
class _Failing:
    append_as_leader: Callable[[bytearray, int], LogAppendInfo]


def test_a_replica_stops_when_an_invariant_does_not_hold() -> None:
    found: list[Exception] = []
    driver, io, failures = a_leader(found.append)

    def wrong(start_offset: int, end_offset: int) -> None:  # noqa: ARG001
        raise AssertionError("not the next offset")

    io.handle_commit = wrong  # type: ignore[method-assign]
    driver.append(driver.client.leader_and_epoch.epoch, batch("a"), 1, lambda *_: None)
    io.sync()
    assert [str(each) for each in found] == ["not the next offset"]
    assert failures == []
    driver.poll()
    assert io.story == ["flush"]
