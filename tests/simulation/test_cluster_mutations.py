"""Typical bugs, each planted in one place of the shipped code: the simulator finds them.

Note: a mutation need not fail in every run. It must in one of the first few, and by a check, not by
an exception of its own.
"""

from collections.abc import Callable, Mapping

import pytest

from headwater.common.ids import NodeId, TopicId, TopicPartition
from headwater.controller import leader_election
from headwater.controller.leader_election import ReplicaEligibility
from headwater.coordinator.assignors import uniform_assignor
from headwater.coordinator.assignors.assignor_spec import (
    Assignment,
    MemberSpec,
    PartitionCounts,
    TopicIdPartition,
)
from headwater.coordinator.group.consumer import current_assignment_builder
from headwater.coordinator.runtime.coordinator_log import PartitionCoordinatorLog
from headwater.metadata.cluster_image import ClusterImage
from headwater.replication import follower_state
from headwater.replication.leader_state import FollowerFetch, LeaderState
from headwater.replication.partition import Partition
from headwater.replication.replica_manager import ReplicaManager
from headwater.storage.log.leader_epoch_checkpoint import EpochEnd, LeaderEpochFileCache
from headwater.storage.log_manager.log_directory import LogDirectory
from tests.simulation.simulators.cluster import run

Mutate = Callable[[pytest.MonkeyPatch], None]

_MAX_SEEDS = 25


def leader_ignores_its_followers(patch: pytest.MonkeyPatch) -> None:
    def everything(_: LeaderState, end_offset: int, *, min_in_sync: int, now_ms: int) -> int:  # noqa: ARG001
        return end_offset

    patch.setattr(LeaderState, "committed_end", everything)


def follower_never_truncates(patch: pytest.MonkeyPatch) -> None:
    def nothing(_: LeaderEpochFileCache, end_offset: int, leader: EpochEnd) -> int:  # noqa: ARG001
        return end_offset

    patch.setattr(follower_state, "truncation_offset", nothing)


def high_watermark_decreases(patch: pytest.MonkeyPatch) -> None:
    fetched = Partition.update_follower_fetch_state

    def forgetful(self: Partition, fetch: FollowerFetch) -> bool:
        result = fetched(self, fetch)
        if self.log is not None:
            self.log.high_watermark = min(self.log.high_watermark, fetch.offset)
        return result

    patch.setattr(Partition, "update_follower_fetch_state", forgetful)


def returned_broker_counts_as_sound(patch: pytest.MonkeyPatch) -> None:
    """As in Kafka's ZooKeeper mode (decision 0013)."""
    original = leader_election.eligibility

    def trusting(image: ClusterImage, node_id: NodeId, name: TopicPartition) -> ReplicaEligibility:
        found = original(image, node_id, name)
        return ReplicaEligibility.ELIGIBLE if found is ReplicaEligibility.RETURNED else found

    patch.setattr(leader_election, "eligibility", trusting)


def deleted_folders_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogDirectory, "_delete_later", lambda *_: None)


def stray_folders_are_adopted(patch: pytest.MonkeyPatch) -> None:
    none: list[LogDirectory] = []
    patch.setattr(ReplicaManager, "_strays", lambda *_: none)


def coordinator_answers_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionCoordinatorLog, "committed_offset", PartitionCoordinatorLog.end_offset)


def every_member_gets_all_partitions(patch: pytest.MonkeyPatch) -> None:
    """In two places, since the assignor alone cannot assign owned partitions twice."""

    def generous(
        members: Mapping[str, MemberSpec], topics: tuple[TopicId, ...], counts: PartitionCounts
    ) -> Assignment:
        all_there_is = frozenset(
            TopicIdPartition(topic_id, number)
            for topic_id in topics
            for number in range(counts[topic_id])
        )
        return dict.fromkeys(members, all_there_is)

    patch.setattr(uniform_assignor, "_assign_even", generous)
    patch.setattr(current_assignment_builder, "filter", lambda _, wanted: wanted, raising=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutate",
    [
        leader_ignores_its_followers,
        follower_never_truncates,
        high_watermark_decreases,
        returned_broker_counts_as_sound,
        deleted_folders_stay,
        stray_folders_are_adopted,
        coordinator_answers_before_it_is_committed,
        every_member_gets_all_partitions,
    ],
)
def test_a_planted_bug_is_found(mutate: Mutate, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    for seed in range(1, _MAX_SEEDS + 1):
        failure = run(seed).failure
        if failure is not None and "CheckFailed" in failure:
            print(f"seed {seed}: {failure.strip().splitlines()[-1]}")
            return
    pytest.fail("not noticed")
