"""The active controller on the quorum; and each check catches planted bugs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headwater.controller.quorum import cluster_control
from headwater.controller.quorum.broker_heartbeat_manager import BrokerHeartbeatManager
from headwater.metadata.changes import MetadataChange
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.metadata_record_serde import ApiMessageAndVersion
from headwater.metadata_store.raft import quorum_change_writer
from headwater.metadata_store.raft.quorum_change_writer import QuorumChangeWriter
from tests.simulation.simulators.active_controller import run


@pytest.mark.parametrize("seed", [2, 4, 100])
def test_every_committed_image_keeps_the_rules(seed: int) -> None:
    outcome = run(seed)
    assert outcome.failure is None, f"{outcome.failure}\nseed {seed}"
    assert outcome.registrations > 4
    assert outcome.acknowledged > 10
    assert outcome.failovers > 1


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", [1_000, 2_000])
def test_every_committed_image_keeps_the_rules_over_many_seeds(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 50):
        outcome = run(seed)
        assert outcome.failure is None, f"{outcome.failure}\nseed {seed}"


def failures(seeds: Sequence[int]) -> str:
    """What the first of some seeds that fails says."""
    return next((found for seed in seeds if (found := run(seed).failure)), "")


def test_a_broker_that_is_fenced_without_elections_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without_elections(
        _image: ClusterImage,
        changes: Sequence[MetadataChange],
        _held: object,
        _unclean: object = (),
    ) -> list[MetadataChange]:
        return list(changes)

    monkeypatch.setattr(cluster_control, "_with_elections", without_elections)
    assert "is led by" in failures([4])


def test_equal_broker_epochs_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QuorumChangeWriter, "next_write_offset", property(lambda _: 7))
    assert "which another one has" in failures([4])


def test_answers_before_the_commit_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
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

    monkeypatch.setattr(QuorumChangeWriter, "_append", hasty)
    assert "was acknowledged and is gone" in failures(range(1, 12))


def test_sessions_that_never_end_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restarted broker then waits for ever for the session of its predecessor."""
    monkeypatch.setattr(BrokerHeartbeatManager, "stale_brokers", lambda _self, _now_ms: [])
    monkeypatch.setattr(
        BrokerHeartbeatManager,
        "has_valid_session",
        lambda self, node_id, _: node_id in self._brokers,
    )
    assert "not settled: fenced brokers" in failures([4])
