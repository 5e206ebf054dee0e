"""Whole KRaft clusters under faults, and typical bugs that the simulator finds.

Note: a planted bug need not fail in every run. It must in one of the first few, and by a check, not
by an exception of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicPartition
from headwater.controller import alter_partition, eligible_leader_replicas, leader_election
from headwater.controller.leader_election import ReplicaEligibility
from headwater.controller.quorum import broker_heartbeat_manager, cluster_control
from headwater.controller.quorum.broker_heartbeat_manager import BrokerControlState
from headwater.metadata.changes import MetadataChange
from headwater.metadata.cluster_image import ClusterImage, PartitionRegistration
from headwater.metadata.metadata_record_serde import ApiMessageAndVersion
from headwater.metadata_store.raft import quorum_change_writer
from headwater.metadata_store.raft.kafka_raft_log import KafkaRaftLog
from headwater.metadata_store.raft.quorum_change_writer import QuorumChangeWriter
from headwater.protocol.messages.alter_partition import PartitionData
from headwater.replication.leader_state import LeaderState
from headwater.storage.log_manager import clean_shutdown_file
from tests.simulation.labs.kraft_lab import KRaftBroker
from tests.simulation.labs.lab_node import DIRECTORIES
from tests.simulation.simulators.kraft_cluster import run

Mutate = Callable[[pytest.MonkeyPatch], None]

_MAX_SEEDS = 25


@pytest.mark.parametrize("seed", [2, 5])
def test_a_kraft_cluster_keeps_its_guarantees(seed: int) -> None:
    outcome = run(seed, steps=100)
    assert outcome.failure is None, f"{outcome.failure}\nseed {seed}"
    assert outcome.acknowledged > 10
    assert outcome.registrations > 2


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", range(1_000, 5_000, 1_000))
def test_a_kraft_cluster_keeps_its_guarantees_over_many_seeds(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 25):
        outcome = run(seed, steps=300)
        assert outcome.failure is None, f"{outcome.failure}\nseed {seed}"


@pytest.mark.slow
def test_a_seed_gives_the_same_run_whatever_the_hash_seed() -> None:
    stories = [
        subprocess.run(
            [sys.executable, "-m", "tests.simulation", "kraft-cluster", "--seed", "3", "--trace"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert stories[0] == stories[1]
    assert len(stories[0].splitlines()) > 20


# Planted bugs.


def broker_is_unfenced_before_it_caught_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(broker_heartbeat_manager, "_after_fenced", lambda *_: BrokerControlState.UNFENCED)


def broker_claims_a_clean_stop(patch: pytest.MonkeyPatch) -> None:
    """It writes the proof when it starts, so that the proof is there after kill -9."""
    open_port = KRaftBroker._open

    def hasty(self: KRaftBroker) -> None:
        for path in DIRECTORIES:
            if not self.disk.is_broken(path):
                clean_shutdown_file.save(self.disk, path, self.broker_epoch)
        open_port(self)

    patch.setattr(KRaftBroker, "_open", hasty)


def unclean_brokers_stay_in_the_elr(patch: pytest.MonkeyPatch) -> None:
    original = eligible_leader_replicas.with_elr

    def trusting(
        image: ClusterImage,
        topic: str,
        before: PartitionRegistration,
        after: PartitionRegistration,
        unclean: object = (),  # noqa: ARG001
    ) -> PartitionRegistration:
        return original(image, topic, before, after)

    patch.setattr(leader_election, "with_elr", trusting)


def controller_answers_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    append = QuorumChangeWriter._append

    def hasty(
        self: QuorumChangeWriter,
        records: Sequence[ApiMessageAndVersion],
        write: quorum_change_writer._Write | None,
        *,
        is_transaction: bool = False,
    ) -> None:
        append(self, records, write, is_transaction=is_transaction)
        self.committed(self._end_offset)

    patch.setattr(QuorumChangeWriter, "_append", hasty)


def stale_partition_epoch_is_accepted(patch: pytest.MonkeyPatch) -> None:
    original = alter_partition._check

    def lenient(
        image: ClusterImage,
        leader_id: NodeId,
        name: TopicPartition,
        partition: PartitionRegistration,
        request: PartitionData,
    ) -> ErrorCode | None:
        error = original(image, leader_id, name, partition, request)
        return None if error is ErrorCode.INVALID_UPDATE_VERSION else error

    patch.setattr(alter_partition, "_check", lenient)


def fenced_or_restarted_brokers_join_the_isr(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(alter_partition, "_is_eligible", lambda *_: True)


def restarted_broker_counts_as_sound(patch: pytest.MonkeyPatch) -> None:
    original = leader_election.eligibility

    def trusting(image: ClusterImage, node_id: NodeId, name: TopicPartition) -> ReplicaEligibility:
        found = original(image, node_id, name)
        if found is ReplicaEligibility.DEAD and node_id in image.fenced_brokers:
            return ReplicaEligibility.ELIGIBLE
        return found

    patch.setattr(leader_election, "eligibility", trusting)


def fenced_broker_keeps_its_partitions(patch: pytest.MonkeyPatch) -> None:
    def without_elections(
        _image: ClusterImage,
        changes: Sequence[MetadataChange],
        _held: object,
        _unclean: object = (),
    ) -> list[MetadataChange]:
        return list(changes)

    patch.setattr(cluster_control, "_with_elections", without_elections)


def replica_of_the_log_answers_before_its_sync(patch: pytest.MonkeyPatch) -> None:
    def not_at_all(_: KafkaRaftLog, then: Callable[[None], None]) -> None:
        then(None)

    patch.setattr(KafkaRaftLog, "flush", not_at_all)


def leader_ignores_its_followers(patch: pytest.MonkeyPatch) -> None:
    def everything(_: LeaderState, end_offset: int, *, min_in_sync: int, now_ms: int) -> int:  # noqa: ARG001
        return end_offset

    patch.setattr(LeaderState, "committed_end", everything)


def found_failure(mutate: Mutate, patch: pytest.MonkeyPatch) -> str:
    mutate(patch)
    for seed in range(1, _MAX_SEEDS + 1):
        failure = run(seed).failure
        if failure is not None and "CheckFailed" in failure:
            return f"seed {seed}: {failure.strip().splitlines()[-1]}"
    return "not noticed"


def test_a_broker_that_is_unfenced_before_it_caught_up_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker_is_unfenced_before_it_caught_up(monkeypatch)
    assert "is unfenced and has no metadata" in str(run(1).failure)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutate",
    [
        broker_claims_a_clean_stop,
        unclean_brokers_stay_in_the_elr,
        controller_answers_before_the_commit,
        stale_partition_epoch_is_accepted,
        fenced_or_restarted_brokers_join_the_isr,
        restarted_broker_counts_as_sound,
        replica_of_the_log_answers_before_its_sync,
        fenced_broker_keeps_its_partitions,
        leader_ignores_its_followers,
    ],
)
def test_a_planted_bug_is_found(mutate: Mutate, monkeypatch: pytest.MonkeyPatch) -> None:
    found = found_failure(mutate, monkeypatch)
    print(found)
    assert found != "not noticed"
