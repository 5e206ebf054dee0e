"""Bugs of the kind that people make, each in one place of the shipped code: the storms find them.

What a reader would get wrong: a mutation need not fail in every story. It must in one of the first
few, and by a check, not by an exception of the mutant's own.
"""

from collections.abc import Callable, Mapping

import pytest

from headwater.cluster import settlement
from headwater.cluster.image import ClusterImage
from headwater.cluster.settlement import Standing
from headwater.coordinator.assignors import uniform
from headwater.coordinator.assignors.spec import (
    Assignment,
    MemberSpec,
    PartitionCounts,
    TopicIdPartition,
)
from headwater.coordinator.groups import reconciliation
from headwater.coordinator.shard_log import PartitionShardLog
from headwater.model.ids import NodeId, TopicId, TopicPartition
from headwater.replication import following
from headwater.replication.hosted_partition import HostedPartition
from headwater.replication.hosted_partitions import HostedPartitions
from headwater.replication.leading import FollowerFetch, Leading
from headwater.storage.leader_epochs import EpochEnd, LeaderEpochs
from headwater.storage.log_directory import LogDirectory
from tests.sim.cluster import run

Mutate = Callable[[pytest.MonkeyPatch], None]

_MOST_STORIES = 25


def leader_waits_for_nobody(patch: pytest.MonkeyPatch) -> None:
    def everything(_: Leading, end_offset: int, *, min_in_sync: int, now_ms: int) -> int:  # noqa: ARG001
        return end_offset

    patch.setattr(Leading, "committed_end", everything)


def follower_cuts_nothing(patch: pytest.MonkeyPatch) -> None:
    def nothing(_: LeaderEpochs, end_offset: int, leader: EpochEnd) -> int:  # noqa: ARG001
        return end_offset

    patch.setattr(following, "diverging_end", nothing)


def watermark_goes_back(patch: pytest.MonkeyPatch) -> None:
    fetched = HostedPartition.fetched

    def forgetful(self: HostedPartition, fetch: FollowerFetch) -> bool:
        heard = fetched(self, fetch)
        if self.log is not None:
            self.log.high_watermark = min(self.log.high_watermark, fetch.offset)
        return heard

    patch.setattr(HostedPartition, "fetched", forgetful)


def returned_broker_counts_as_sound(patch: pytest.MonkeyPatch) -> None:
    """As in Kafka's ZooKeeper mode (decision 0013)."""
    judged = settlement.standing

    def trusting(image: ClusterImage, node_id: NodeId, name: TopicPartition) -> Standing:
        found = judged(image, node_id, name)
        return Standing.SOUND if found is Standing.RETURNED else found

    patch.setattr(settlement, "standing", trusting)


def deleted_folders_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogDirectory, "_doom", lambda *_: None)


def namesakes_folders_are_taken(patch: pytest.MonkeyPatch) -> None:
    nobody: list[LogDirectory] = []
    patch.setattr(HostedPartitions, "_strays", lambda *_: nobody)


def coordinator_answers_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionShardLog, "committed_offset", PartitionShardLog.end_offset)


def everybody_owns_everything(patch: pytest.MonkeyPatch) -> None:
    """In two places: what others have is not given away, whatever the assignor wants."""

    def generous(
        members: Mapping[str, MemberSpec], topics: tuple[TopicId, ...], counts: PartitionCounts
    ) -> Assignment:
        all_there_is = frozenset(
            TopicIdPartition(topic_id, number)
            for topic_id in topics
            for number in range(counts[topic_id])
        )
        return dict.fromkeys(members, all_there_is)

    patch.setattr(uniform, "_assign_even", generous)
    patch.setattr(reconciliation, "filter", lambda _, wanted: wanted, raising=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutate",
    [
        leader_waits_for_nobody,
        follower_cuts_nothing,
        watermark_goes_back,
        returned_broker_counts_as_sound,
        deleted_folders_stay,
        namesakes_folders_are_taken,
        coordinator_answers_before_it_is_committed,
        everybody_owns_everything,
    ],
)
def test_a_bug_in_the_shipped_code_is_found(
    mutate: Mutate, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    for seed in range(1, _MOST_STORIES + 1):
        failure = run(seed).failure
        if failure is not None and "CheckFailed" in failure:
            print(f"seed {seed}: {failure.strip().splitlines()[-1]}")
            return
    pytest.fail("nobody noticed")
