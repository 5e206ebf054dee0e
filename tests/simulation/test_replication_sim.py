"""Partitions on three to five brokers under faults; and that each check notices its fault."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from headwater.common.ids import NodeId
from headwater.metadata.cluster_image import PartitionRegistration
from headwater.replication import follower_state
from headwater.replication.isr_state import IsrState
from headwater.replication.leader_state import FollowerFetch, LeaderRules, LeaderState
from headwater.replication.partition import Partition
from headwater.storage.log.leader_epoch_checkpoint import EpochEnd, LeaderEpochFileCache
from tests.simulation.fakes import scripted_controller
from tests.simulation.simulators.replication import run

SEEDS = range(1, 17)


@pytest.mark.parametrize("seed", SEEDS)
def test_replicas_keep_their_guarantees(seed: int) -> None:
    outcome = run(seed)
    assert outcome.failure is None, f"{outcome.failure}\nseed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", [1_000, 2_000, 3_000, 4_000])
def test_replicas_keep_their_guarantees_over_many_seeds(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 100):
        outcome = run(seed, steps=600)
        assert outcome.failure is None, f"{outcome.failure}\nseed {seed}"


def test_a_seed_gives_the_same_run_whatever_the_hash_seed() -> None:
    stories = [
        subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.simulation.simulators.replication",
                "--seed",
                "3",
                "--trace",
            ],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert stories[0] == stories[1]
    assert len(stories[0].splitlines()) > 50


def first_failure(*, steps: int = 400) -> str:
    """What the checks report of a broken broker, in one of the runs."""
    for seed in range(1, 40):
        failure = run(seed, steps=steps).failure
        if failure is not None and "CheckFailed" in failure:
            return failure.strip().splitlines()[-1]
    pytest.fail("not noticed")


def test_a_leader_that_ignores_its_followers_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def everything(_: LeaderState, end_offset: int, *, min_in_sync: int, now_ms: int) -> int:  # noqa: ARG001
        return end_offset

    monkeypatch.setattr(LeaderState, "committed_end", everything)
    failure = first_failure()
    assert "lacks what" in failure or "differ below" in failure or " at " in failure


def test_a_follower_that_never_truncates_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: LeaderEpochFileCache, end_offset: int, leader: EpochEnd) -> int:  # noqa: ARG001
        return end_offset

    monkeypatch.setattr(follower_state, "truncation_offset", nothing)
    failure = first_failure()
    assert "differ" in failure or "lacks what" in failure or " at " in failure


def test_a_decreasing_high_watermark_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = Partition.update_follower_fetch_state

    def forgetful(self: Partition, fetch: FollowerFetch) -> bool:
        """Only the last fetch counts."""
        result = fetched(self, fetch)
        if self.log is not None:
            self.log.high_watermark = min(self.log.high_watermark, fetch.offset)
        return result

    monkeypatch.setattr(Partition, "update_follower_fetch_state", forgetful)
    assert "the watermark of" in first_failure()


def test_two_leaders_in_one_epoch_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def led_by(
        partition: PartitionRegistration, leader: NodeId, isr: tuple[NodeId, ...]
    ) -> PartitionRegistration:
        return replace(
            partition, leader=leader, isr=isr, partition_epoch=partition.partition_epoch + 1
        )

    monkeypatch.setattr(scripted_controller, "led_by", led_by)
    assert "lead in epoch" in first_failure()


def test_ignoring_a_pending_isr_addition_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ISR-4: the controller may have committed it and its response may be lost."""
    propose = IsrState._propose

    def joining(self: IsrState, node_id: NodeId) -> object:
        if self.pending is not None or node_id in self.committed:
            return None
        return propose(self, (*self.committed, node_id))

    monkeypatch.setattr(IsrState, "propose_expand", joining)
    monkeypatch.setattr(LeaderRules, "is_eligible", lambda *_: True)
    monkeypatch.setattr(LeaderState, "_is_about_to_join", lambda *_: False)
    failure = first_failure()
    assert "lacks what" in failure or " at " in failure
