"""Whole clusters in storms; and that each check notices its fault."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from headwater.model.ids import NodeId
from headwater.replication.hosted_partition import HostedPartition
from headwater.wire.api_key import ApiKey
from headwater.wire.lifting import Message
from headwater.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.sim.cluster import ClusterLife, run
from tests.sim.cluster_clients import TOPIC, Producer
from tests.sim.cluster_records import log_of
from tests.sim.fake_network import Reply, Serve
from tests.sim.member_lab import DATA, MemberNode
from tests.sim.replication_checks import CheckFailed
from tests.sim.virtual_time import CALM

SEEDS = range(1, 17)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_keeps_its_promises(seed: int) -> None:
    outcome = run(seed)
    assert outcome.failure is None, f"{outcome.failure}\nseed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", [1_000, 2_000, 3_000, 4_000])
def test_a_cluster_keeps_its_promises_over_many_lives(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 50):
        outcome = run(seed, steps=300)
        assert outcome.failure is None, f"{outcome.failure}\nseed {seed}"


def test_one_seed_is_one_story_whatever_the_hash_seed() -> None:
    stories = [
        subprocess.run(
            [sys.executable, "-m", "tests.sim", "cluster", "--seed", "5", "--trace"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert stories[0] == stories[1]
    assert len(stories[0].splitlines()) > 20


# Each check, and a fault that is planted into a cluster in fair weather for it to notice.


def noticed(plant: Callable[[ClusterLife], None]) -> str:
    """What the checks say of a cluster after something was done to it."""
    life = ClusterLife(2)
    life.lab.time.weather = CALM
    life.pass_time(3_000)
    life.checks.compare(life.lab, life.wiped)
    plant(life)
    with pytest.raises(CheckFailed) as caught:
        look_until_the_end(life)
    return str(caught.value)


def look_until_the_end(life: ClusterLife) -> None:
    for _ in range(10):
        life.pass_time(100)
        life.checks.compare(life.lab, life.wiped)
    life.finish()


def test_nothing_is_noticed_where_nothing_is_wrong() -> None:
    life = ClusterLife(2)
    life.lab.time.weather = CALM
    life.pass_time(4_000)
    life.finish()
    assert len(life.told.places) > 20
    assert life.told.committed
    assert life.told.seen
    assert any(each.verdict for each in life.told.attempts)


def hosted_by(life: ClusterLife, *, leads: bool) -> tuple[MemberNode, HostedPartition]:
    """The first partition at its leader, or at one of its followers."""
    state = life.lab.store.image.topics[TOPIC].partitions[0]
    others = [each for each in state.replicas if each != state.leader]
    node = life.lab.nodes[state.leader if leads else others[0]]
    hosted = node.partitions.find(TOPIC, 0)
    assert hosted is not None
    return node, hosted


def test_two_leaders_in_one_epoch_are_noticed() -> None:
    def plant(life: ClusterLife) -> None:
        node, hosted = hosted_by(life, leads=False)
        state = hosted.state
        epoch = state.partition_epoch + 1
        hosted.place(replace(state, leader=node.node_id, partition_epoch=epoch))

    assert " lead " in noticed(plant)


def test_a_watermark_that_goes_back_is_noticed() -> None:
    def plant(life: ClusterLife) -> None:
        _, hosted = hosted_by(life, leads=True)
        life.lab.network.isolate(hosted.state.leader)
        hosted.opened().high_watermark = 0

    assert "the watermark of" in noticed(plant)


def test_replicas_that_differ_below_the_watermark_are_noticed() -> None:
    def plant(life: ClusterLife) -> None:
        node, hosted = hosted_by(life, leads=False)
        first = log_of(hosted)[0]
        path = DATA / f"{TOPIC}-0" / f"{0:020}.log"
        # The last byte of the first batch's last value.
        node.disk.open(path).write([b"!"], len(first.content) - 2)

    assert "differ below" in noticed(plant)


def test_an_in_sync_replica_that_lacks_something_is_noticed() -> None:
    def plant(life: ClusterLife) -> None:
        node, hosted = hosted_by(life, leads=False)
        life.lab.network.isolate(node.node_id)
        hosted.opened().truncate_to(1, now_ms=life.lab.time.now_ms)

    assert "is in sync and lacks" in noticed(plant)


def test_what_was_acknowledged_and_then_lost_with_all_replicas_is_noticed() -> None:
    """The script of the storms would spare one of them."""

    def plant(life: ClusterLife) -> None:
        for node in life.lab.nodes:
            node.crash(loses_power=True)
        life.pass_time(2_000)
        for node in life.lab.nodes:
            node.start()
        life.pass_time(2_000)

    assert noticed(plant).startswith("acknowledged")


def test_what_consumers_saw_and_what_then_vanished_is_noticed() -> None:
    def plant(life: ClusterLife) -> None:
        life.told.places.clear()
        for node in life.lab.nodes:
            node.crash(loses_power=True)
        life.pass_time(2_000)
        for node in life.lab.nodes:
            node.start()
        life.pass_time(2_000)

    assert noticed(plant).startswith("seen")


def test_a_record_that_is_there_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def plant(life: ClusterLife) -> None:
        (producer, *_) = (each for each in life.clients if isinstance(each, Producer))
        answered = producer.answered

        def forget(response: Message) -> None:
            """What it was told, but not that it has used the sequence number."""
            values = list(producer.values)
            answered(response)
            if not producer.values:
                producer.values = values
                monkeypatch.undo()

        monkeypatch.setattr(producer, "answered", forget)

    failure = noticed(plant)
    assert "twice" in failure or "and not" in failure


def test_a_commit_that_is_lost_is_noticed() -> None:
    def plant(life: ClusterLife) -> None:
        life.told.committed["a group that nobody has written down"] = 7

    assert "was acknowledged as 7: -1" in noticed(plant)


@pytest.mark.parametrize(
    ("deaf_to", "complaint"),
    [
        ((ApiKey.UPDATE_METADATA, ApiKey.LEADER_AND_ISR), "has not heard"),
        ((ApiKey.FETCH,), "are in sync in"),
    ],
)
def test_a_cluster_that_does_not_come_to_rest_is_noticed(
    deaf_to: tuple[ApiKey, ...], complaint: str
) -> None:
    """A broker does not hear its controller, or a leader does not hear one of its followers."""

    def plant(life: ClusterLife) -> None:
        node, hosted = hosted_by(life, leads=True)
        follower = next(each for each in hosted.state.replicas if each != node.node_id)
        ears = life.lab.network.node(node.node_id)
        assert ears is not None
        serve = ears.serve

        def deaf(source: NodeId, request: Message, reply: Reply) -> None:
            is_meant = request.api is not ApiKey.FETCH or source == follower
            if request.api not in deaf_to or not is_meant:
                serve(source, request, reply)

        ears.serve = deaf
        life.lab.nodes[follower].crash()

    assert complaint in noticed(plant)


def test_half_a_transaction_is_noticed() -> None:
    """TX-6: one of its partitions has an end that the other one lacks."""

    def plant(life: ClusterLife) -> None:
        life.pass_time(2_000)
        (whole, *_) = (each for each in life.told.attempts if each.verdict)
        whole.values.append((whole.values[0][0], b"never written"))

    assert "not seen whole" in noticed(plant)


def test_something_of_an_aborted_transaction_is_noticed() -> None:
    def plant(life: ClusterLife) -> None:
        life.pass_time(2_000)
        (whole, *_) = (each for each in life.told.attempts if each.verdict)
        whole.verdict = False

    assert "aborted transaction is seen" in noticed(plant)


def test_a_marker_that_was_acknowledged_and_not_written_is_noticed() -> None:
    """TX-6: the coordinator takes the transaction for ended, and its records stay hidden."""

    def lie(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(
            markers=tuple(
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=tuple(
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=tuple(
                                WritableTxnMarkerPartitionResult(partition_index=number)
                                for number in topic.partition_indexes
                            ),
                        )
                        for topic in marker.topics
                    ),
                )
                for marker in request.markers
            )
        )

    def plant(life: ClusterLife) -> None:
        for node in life.lab.nodes:
            ears = life.lab.network.node(node.node_id)
            assert ears is not None
            ears.serve = partial(lying, ears.serve)

    def lying(serve: Serve, source: NodeId, request: Message, reply: Reply) -> None:
        if isinstance(request, WriteTxnMarkersRequest):
            reply(lie(request))
        else:
            serve(source, request, reply)

    assert "open at rest" in noticed(plant)
