"""The quorum under crashes, partitions and voter changes; and each check catches planted bugs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.metadata_store.raft import quorum_state_store
from headwater.metadata_store.raft.kafka_raft_log import KafkaRaftLog
from headwater.metadata_store.raft.raft_driver import RaftDriver, RaftIo, Synced
from headwater.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from headwater.protocol.older_versions import Message
from headwater.raft.election_state import ElectionState, encode_election_state
from headwater.raft.epoch_states import CandidateState, ProspectiveState, UnattachedState
from headwater.raft.fetch_handler import FetchHandler
from headwater.raft.leader_state import LeaderState
from headwater.raft.quorum_config import QuorumConfig
from headwater.raft.quorum_state import EpochState, QuorumState
from headwater.raft.raft_core import RaftCore
from headwater.raft.raft_events import FlushLog
from headwater.raft.replicated_log import OffsetAndEpoch
from headwater.raft.voter_change_handler import VoterChangeHandler
from headwater.raft.voter_set import VoterSet
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import Buffer
from headwater.records.record import Record
from headwater.storage.io.disk import Disk
from headwater.storage.log.flush import Waiter
from tests.simulation.fakes.filed_raft_log import FiledRaftLog
from tests.simulation.simulators.quorum import QuorumLife, run
from tests.simulation.worlds.quorum_checks import GENESIS, CheckFailed, chained
from tests.simulation.worlds.quorum_world import CLUSTER_ID, QuorumNode, QuorumWorld

# So many seeds of a directed scenario show each of its bugs.
FEW = 5
# 200725: an observer that knew the leader but not its endpoints never followed it.
SEEDS = [*range(1, 17), 200_725]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_quorum_keeps_the_rules_of_raft(seed: int) -> None:
    outcome = run(seed)
    assert outcome.failure is None, f"{outcome.failure}\nseed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", [10_000, 20_000, 30_000, 40_000])
def test_the_quorum_keeps_the_rules_of_raft_over_many_seeds(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 250):
        outcome = run(seed)
        assert outcome.failure is None, f"{outcome.failure}\nseed {seed}"


def test_runs_do_something() -> None:
    outcomes = [run(seed) for seed in range(1, 9)]
    assert sum(each.voter_changes for each in outcomes) > 0
    assert sum(each.snapshots for each in outcomes) > 0
    assert sum(each.epochs for each in outcomes) > 16
    assert sum(each.committed for each in outcomes) > 100


def test_one_seed_gives_one_trace_whatever_the_hash_seed() -> None:
    command = [sys.executable, "-m", "tests.simulation.simulators.quorum", "--seed", "6", "--trace"]
    traces = [
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert traces[0] == traces[1]
    assert len(traces[0].splitlines()) > 20


def first_failure(*, first: int = 1, seeds: int = 150) -> str:
    """What the checks say of a broken replica, in one of the seeds from the first on."""
    for seed in range(first, first + seeds):
        failure = run(seed, is_wild=True).failure
        if failure is not None and "CheckFailed" in failure:
            return failure.strip().splitlines()[-1].partition("CheckFailed: ")[2]
    pytest.fail("no check noticed the bug")


def in_few_seeds(scenario: Callable[[int], object]) -> None:
    for seed in range(FEW):
        scenario(seed)


def forgotten_vote(seed: int) -> bool:
    """Two candidates of one epoch ask a voter that crashes between their requests.

    Return false if this seed has no two candidates of one epoch.
    """
    # They ask again soon, since requests on cut links are lost.
    world = QuorumWorld(seed, 0, 3, 0, 0, config=QuorumConfig(request_timeout_ms=50))
    first, voter, second = world.nodes.values()
    # It never stands for election itself.
    voter.clock_rate = 0.001

    def separate(*pairs: tuple[QuorumNode, QuorumNode]) -> None:
        world.cut.clear()
        for one, other in ((first, second), *pairs):
            world.cut[one.node_id, other.node_id] = world.cut[other.node_id, one.node_id] = None

    def candidacy(node: QuorumNode) -> int | None:
        client = node.client
        is_candidate = client is not None and client.state_name == "candidate"
        return client.leader_and_epoch.epoch if client is not None and is_candidate else None

    for node in world.nodes.values():
        node.start()
    for _ in range(5_000):
        # Once it has its pre-votes, it does not reach the voter.
        separate(*((each, voter) for each in (first, second) if candidacy(each) is not None))
        world.time.run_for(1)
        if candidacy(first) is not None and candidacy(first) == candidacy(second):
            break
    else:
        return False
    separate((second, voter))
    while candidacy(first) is not None:
        world.time.run_for(1)
    separate((first, voter), (second, voter))
    voter.crash()
    voter.start()
    separate((first, voter))
    world.time.run_for(400)
    world.cut.clear()
    world.time.run_for(20_000)
    assert world.checks.leaders
    return True


def test_a_vote_outlives_a_crash_of_its_voter() -> None:
    has_two_candidates = [forgotten_vote(seed) for seed in range(FEW)]
    assert any(has_two_candidates)


def test_a_vote_without_a_sync_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def volatile(self: QuorumState, state: EpochState) -> None:
        is_vote = isinstance(state, UnattachedState | ProspectiveState) and state.voted_key
        if not is_vote:
            durable(self, state)
        self.state = state

    durable = QuorumState._durable_transition_to
    monkeypatch.setattr(QuorumState, "_durable_transition_to", volatile)
    with pytest.raises(CheckFailed, match="election safety"):
        in_few_seeds(forgotten_vote)


def test_a_stale_pre_vote_that_counts_as_a_vote_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pre-vote promises nothing, and its voter may have voted for another candidate since."""

    def counting(self: QuorumState, now_ms: int) -> None:
        state = self.state
        assert isinstance(state, ProspectiveState)
        become_candidate(self, now_ms)
        assert isinstance(self.state, CandidateState)
        self.state.epoch_election = state.epoch_election

    become_candidate = QuorumState.transition_to_candidate
    monkeypatch.setattr(QuorumState, "transition_to_candidate", counting)
    assert "election safety" in first_failure(first=2)


def figure_8(seed: int) -> QuorumWorld:
    """Raft, figure 8: a record of epoch 2 on a majority, and a voter with another one of epoch 3.

    The leader of epoch 4 counts the record of epoch 2 on three of five voters. As soon as anything
    commits, it crashes with a follower and all that is under way; then the voter of epoch 3 and a
    short one start.
    """
    world = QuorumWorld(seed, 0, 5, 0, 0)
    world.checks.committed_by[1] = 1
    for node_id, epochs in enumerate(((1, 2), (1, 2), (1, 2), (1,), (1, 3))):
        node = world.nodes[node_id]
        for epoch in epochs:
            batch = bytearray(build_batch([Record(value=b"%d" % epoch, timestamp=0)]))
            node.log.append_as_leader(batch, epoch)
        node.log.flush()
        node.quorum_state = encode_election_state(
            ElectionState(epoch=3), kraft_version=0, voter_ids=(0, 1, 2, 3, 4)
        )
    first = world.nodes[0].log.image.batches[0]
    world.checks.committed[1] = (chained(GENESIS, first.data), 1)
    world.checks.committed_end = 1
    for node_id in range(3):
        world.nodes[node_id].start()
    for _ in range(20_000):
        world.time.run_for(1)
        if world.checks.committed_end > 1:
            break
    (leader,) = [node for node in world.nodes.values() if node.client and node.client.is_leader]
    leader.crash()
    world.nodes[(leader.node_id + 1) % 3].crash()
    world.cut.update({(a, b): None for a in range(5) for b in range(5)})
    world.time.run_for(50)
    world.cut.clear()
    world.nodes[3].start()
    world.nodes[4].start()
    world.time.run_for(30_000)
    return world


@pytest.mark.parametrize("seed", range(5))
def test_a_record_of_an_earlier_epoch_commits_with_one_of_the_leaders_own(seed: int) -> None:
    """Raft, 5.4.2."""
    world = figure_8(seed)
    assert world.checks.committed_end > 2
    assert max(world.checks.leaders) > 4


def test_committing_an_earlier_epoch_by_count_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_count(self: LeaderState) -> bool:
        start, self.epoch_start_offset = self.epoch_start_offset, -1
        try:
            return update(self)
        finally:
            self.epoch_start_offset = start

    update = LeaderState.maybe_update_high_watermark
    monkeypatch.setattr(LeaderState, "maybe_update_high_watermark", by_count)
    failures = []
    for seed in range(5):
        try:
            figure_8(seed)
        except CheckFailed as failed:
            failures.append(str(failed))
    assert failures, "no check noticed the bug"
    assert "leader completeness" in failures[0]


def isolated_reconfiguration(seed: int) -> tuple[QuorumWorld, list[ErrorCode]]:
    """A leader is cut off and asked to remove the three other voters, one after the other."""
    world = QuorumWorld(seed, 1, 4, 0, 0)
    for node in world.nodes.values():
        node.start()
    world.time.run_for(10_000)
    (leader,) = [node for node in world.nodes.values() if node.client and node.client.is_leader]
    others = [node for node in world.nodes.values() if node is not leader]
    for other in others:
        world.cut[leader.node_id, other.node_id] = None
        world.cut[other.node_id, leader.node_id] = None
    errors: list[ErrorCode] = []

    def answered(response: Message | None) -> None:
        assert isinstance(response, RemoveRaftVoterResponse)
        errors.append(response.error_code)

    for other in others:
        request = RemoveRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            voter_id=other.node_id,
            voter_directory_id=other.key.directory_id,
        )
        world.call(leader, request, answered)
        world.time.run_for(100)
    leader.append(b"of a leader that is alone")
    world.time.run_for(20_000)
    return world, errors


@pytest.mark.parametrize("seed", range(5))
def test_a_voter_change_waits_for_the_one_before(seed: int) -> None:
    """KIP-853: sets that differ by more than one voter have majorities without a common voter."""
    world, errors = isolated_reconfiguration(seed)
    assert errors == [ErrorCode.REQUEST_TIMED_OUT] * 2 + [ErrorCode.NOT_LEADER_OR_FOLLOWER] or (
        errors == [ErrorCode.REQUEST_TIMED_OUT] * 3
    )
    assert len(world.checks.leaders) > 1


def test_overlapping_voter_changes_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: VoterChangeHandler, __: LeaderState) -> tuple[ErrorCode, str] | None:
        return None

    monkeypatch.setattr(VoterChangeHandler, "_refusal", never)
    with pytest.raises(CheckFailed, match="leader completeness"):
        isolated_reconfiguration(1)


def test_an_acknowledged_append_without_a_sync_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsynced(self: FetchHandler, batches: Buffer, epoch: int) -> None:
        append(self, batches, epoch)
        effects = self._core.effects
        effects[:] = [each for each in effects if not isinstance(each, FlushLog)]

    append = FetchHandler._append
    monkeypatch.setattr(FetchHandler, "_append", unsynced)
    assert "durability" in first_failure()


def test_a_leader_that_counts_itself_before_its_sync_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def early(self: RaftCore, effect: object) -> None:
        if not isinstance(effect, FlushLog):
            emit(self, effect)  # type: ignore[arg-type]

    emit = RaftCore.emit
    monkeypatch.setattr(RaftCore, "emit", early)
    assert "durability" in first_failure()


def test_truncation_below_the_high_watermark_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_far(self: FetchHandler, leader_end: OffsetAndEpoch) -> None:
        core = self._core
        offset = max(core.log.start_offset, leader_end.offset - 5)
        core.log.truncate_to(offset)
        core.partition_state.truncate_new_entries(offset)

    monkeypatch.setattr(FetchHandler, "_truncate", too_far)
    assert "truncation" in first_failure(first=20)


def test_a_follower_that_applies_uncommitted_records_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def everything(self: RaftCore, offset: int) -> None:  # noqa: ARG001
        advance(self, self.log.end_offset)

    advance = RaftCore.advance_high_watermark
    monkeypatch.setattr(RaftCore, "advance_high_watermark", everything)
    failure = first_failure()
    assert "committed prefix" in failure or "durability" in failure


def test_a_vote_for_a_shorter_log_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OffsetAndEpoch, "is_at_least", lambda *_: True)
    failure = first_failure()
    assert "leader completeness" in failure or "truncation" in failure


def forgotten_log(seed: int) -> QuorumWorld:
    """A voter has a committed record, loses its disk and is asked for a vote by one without it."""
    world = QuorumWorld(seed, 1, 3, 0, 0)
    for node in world.nodes.values():
        node.start()
    world.time.run_for(10_000)
    (leader,) = [node for node in world.nodes.values() if node.client and node.client.is_leader]
    forgetful, behind = (node for node in world.nodes.values() if node is not leader)
    for each in (leader, forgetful):
        world.cut[each.node_id, behind.node_id] = world.cut[behind.node_id, each.node_id] = None
    end = world.checks.committed_end
    while leader.append(b"on two of three") is None:
        world.time.run_for(1)
    world.time.run_for(2_000)
    assert world.checks.committed_end > end
    leader.crash()
    forgetful.crash()
    forgetful.wipe()
    forgetful.start()
    world.cut.clear()
    world.time.run_for(20_000)
    leader.start()
    world.time.run_for(20_000)
    return world


@pytest.mark.parametrize("seed", range(FEW))
def test_a_voter_without_its_disk_has_no_vote(seed: int) -> None:
    assert forgotten_log(seed).checks.leaders


def test_a_removed_disk_that_still_votes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wiped voter has forgotten its vote and its records; its directory id tells (KIP-853)."""
    monkeypatch.setattr(RaftCore, "is_valid_voter_key", lambda *_: True)
    monkeypatch.setattr(VoterSet, "is_voter", lambda self, key: key.id in self.ids)
    monkeypatch.setattr(LeaderState, "is_voter", lambda self, key: key.id in self.voter_states)
    with pytest.raises(CheckFailed, match="leader completeness"):
        in_few_seeds(forgotten_log)


FILE_SEEDS = [5, 10, 15, 20]


@pytest.mark.parametrize("seed", FILE_SEEDS)
def test_seeds_that_are_multiples_of_five_run_on_the_log_in_files(seed: int) -> None:
    world = QuorumLife(seed).world
    assert all(isinstance(node.log, FiledRaftLog) for node in world.nodes.values())


def first_file_failure(*, most: int = 300) -> str:
    """What the checks say of a replica with a broken log, in one of the seeds with files."""
    for seed in range(5, most, 5):
        failure = run(seed, is_wild=True).failure
        if failure is not None:
            return failure.strip().splitlines()[-1]
    pytest.fail("no check noticed the bug")


def test_a_log_in_files_that_is_not_synced_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsynced(self: KafkaRaftLog, then: Waiter) -> None:  # noqa: ARG001
        then(None)

    monkeypatch.setattr(KafkaRaftLog, "flush", unsynced)
    assert "after a crash the files have" in first_file_failure()


@pytest.mark.slow
def test_a_log_that_counts_before_the_sync_of_a_start_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After kill -9 records are in the page cache only, and the first fetch acknowledges them."""

    def unsynced(self: RaftDriver, stored: ElectionState | None) -> None:
        io, self._io = self._io, _SyncedAtOnce(self._io)
        start(self, stored)
        self._io = io

    start = RaftDriver.start
    monkeypatch.setattr(RaftDriver, "start", unsynced)
    failure = first_file_failure()
    assert "durability" in failure or "after a crash the files have" in failure


class _SyncedAtOnce:
    """`RaftIo` that does not sync."""

    def __init__(self, io: RaftIo) -> None:
        self._io = io

    def __getattr__(self, name: str) -> Any:
        return getattr(self._io, name)

    def flush(self, then: Synced) -> None:
        then(None)


def test_an_election_state_in_files_that_is_not_synced_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unsynced(disk: Disk, path: PurePath, content: bytes) -> None:
        file = disk.open(path, create=True)
        file.truncate(0)
        file.write([content], 0)
        file.close()

    monkeypatch.setattr(quorum_state_store, "write_atomically", unsynced)
    assert "quorum-state" in first_file_failure()
