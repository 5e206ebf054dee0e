"""Whole clusters under faults; and that each check notices its fault."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from headwater.common.ids import NO_TOPIC_ID, NodeId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from headwater.protocol.older_versions import Message
from headwater.replication.partition import Partition
from tests.simulation.fakes.fake_network import Reply, Serve
from tests.simulation.fakes.timed_zookeeper import TimedZooKeeper
from tests.simulation.fakes.virtual_time import CALM
from tests.simulation.labs.cluster_node_lab import DIRECTORIES, ClusterNodeLab, MemberNode
from tests.simulation.simulators.cluster import ClusterLife, run, run_on_zookeeper
from tests.simulation.worlds.cluster_acknowledgements import ClientGuarantees, Commit, Incarnation
from tests.simulation.worlds.cluster_checks import ClusterChecks
from tests.simulation.worlds.cluster_clients import TOPIC, Consumer, Producer
from tests.simulation.worlds.cluster_final_checks import commits_are_kept, transactions_are_whole
from tests.simulation.worlds.cluster_members import Member
from tests.simulation.worlds.cluster_operators import TopicChurner
from tests.simulation.worlds.cluster_records import log_of
from tests.simulation.worlds.replication_checks import CheckFailed

SEEDS = range(1, 17)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_keeps_its_guarantees(seed: int) -> None:
    outcome = run(seed)
    assert outcome.failure is None, f"{outcome.failure}\nseed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", range(1_000, 9_000, 1_000))
def test_a_cluster_keeps_its_guarantees_over_many_seeds(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 25):
        outcome = run(seed, steps=300)
        assert outcome.failure is None, f"{outcome.failure}\nseed {seed}"


def test_a_seed_gives_the_same_run_whatever_the_hash_seed() -> None:
    stories = [
        subprocess.run(
            [sys.executable, "-m", "tests.simulation", "cluster", "--seed", "5", "--trace"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert stories[0] == stories[1]
    assert len(stories[0].splitlines()) > 20


# Each check, and a fault that is planted into a healthy cluster for it to notice.


def noticed(plant: Callable[[ClusterLife], None]) -> str:
    """What the checks report after something was done to a cluster."""
    life = ClusterLife(2, is_changed=False)
    life.lab.time.weather = CALM
    life.pass_time(3_000)
    life.checks.compare(life.lab, life.mercy.wiped)
    plant(life)
    with pytest.raises(CheckFailed) as caught:
        look_until_the_end(life)
    return str(caught.value)


def look_until_the_end(life: ClusterLife) -> None:
    for _ in range(10):
        life.pass_time(100)
        life.checks.compare(life.lab, life.mercy.wiped)
    life.finish()


@pytest.fixture(scope="module")
def rested() -> ClusterLife:
    """A cluster without faults, after a while, idle."""
    life = ClusterLife(2)
    life.lab.time.weather = CALM
    life.pass_time(6_000)
    life.finish()
    return life


def test_nothing_is_reported_without_a_fault(rested: ClusterLife) -> None:
    """A simulator in which nothing happens finds nothing."""
    told = rested.told
    assert len(told.places) > 20
    assert told.committed
    assert told.seen
    assert any(each.is_committed for each in told.attempts)
    assert any(each.is_committed and each.offset is not None for each in told.attempts)
    assert any(each.is_acknowledged for commits in told.commits.values() for each in commits)
    assert sorted({group for group, _, _ in told.owners}) == ["classic members", "members"]
    assert len(set(told.owners.values())) >= 4
    assert any(each.is_disconnected for each in told.incarnations.values())
    assert any(each.places and not each.is_going for each in told.incarnations.values())


def other_owner(told: ClientGuarantees) -> None:
    (group, epoch, number), _ = next(iter(told.owners.items()))
    told.own(group, epoch, [number], "another member")


def lost_commit(told: ClientGuarantees) -> None:
    told.committed["a group without commits"] = 7


def lost_commit_of_a_member(told: ClientGuarantees) -> None:
    commits = next(iter(told.commits.values()))
    commits.append(Commit(1_000, is_acknowledged=True))


def offset_without_its_transaction(told: ClientGuarantees) -> None:
    for attempts in told.attempts_of.values():
        for attempt in attempts:
            attempt.is_committed = False


def half_a_transaction(told: ClientGuarantees) -> None:
    """TX-6."""
    (whole, *_) = (each for each in told.attempts if each.is_committed and each.values)
    whole.values.append((whole.values[0][0], b"never written"))


def part_of_an_aborted_one(told: ClientGuarantees) -> None:
    (whole, *_) = (each for each in told.attempts if each.is_committed and each.values)
    whole.is_committed = False


def deleted_topic_is_there(told: ClientGuarantees) -> None:
    (there, *_) = (each for each in told.incarnations.values() if not each.is_going)
    there.is_disconnected = True


def made_topic_is_not_there(told: ClientGuarantees) -> None:
    told.incarnations[NO_TOPIC_ID] = Incarnation(99, NO_TOPIC_ID)


def namesakes_records(told: ClientGuarantees) -> None:
    (there, *_) = (each for each in told.incarnations.values() if not each.is_going)
    there.places.clear()
    there.number += 1


def vanished_from_a_namesake(told: ClientGuarantees) -> None:
    (there, *_) = (each for each in told.incarnations.values() if not each.is_going)
    there.places[0, 1_000] = b"acknowledged"


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        (other_owner, "both under epoch"),
        (lost_commit, "the commit is -1, and may be [7]"),
        (lost_commit_of_a_member, "may be [1000"),
        (offset_without_its_transaction, "and may be [-1]"),
        (half_a_transaction, "not seen whole"),
        (part_of_an_aborted_one, "aborted transaction is seen"),
        (deleted_topic_is_there, "was deleted, and is there"),
        (made_topic_is_not_there, "was made, and is not there"),
        (namesakes_records, "in incarnation"),
        (vanished_from_a_namesake, "acknowledged b'acknowledged' in incarnation"),
    ],
)
def test_wrong_content_is_noticed_when_idle(
    rested: ClusterLife, plant: Callable[[ClientGuarantees], None], complaint: str
) -> None:
    told = copy.deepcopy(rested.told)

    def look() -> None:
        plant(told)
        ClusterChecks(told).finish(rested.lab)
        commits_are_kept(rested.lab, told)
        transactions_are_whole(rested.lab, told)

    with pytest.raises(CheckFailed) as caught:
        look()
    assert complaint in str(caught.value)


def test_a_stray_folder_is_noticed_when_idle(rested: ClusterLife) -> None:
    disk, folder = rested.lab.nodes[0].disk, DIRECTORIES[0] / "gone-0"
    disk.make_directory(folder)
    with pytest.raises(CheckFailed, match="has folders of"):
        rested.checks.finish(rested.lab)
    disk.remove_tree(folder)


def hosted_by(life: ClusterLife, *, leads: bool) -> tuple[MemberNode, Partition]:
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
        hosted.update_state(replace(state, leader=node.node_id, partition_epoch=epoch))

    assert " lead " in noticed(plant)


def test_a_decreasing_high_watermark_is_noticed() -> None:
    def plant(life: ClusterLife) -> None:
        _, hosted = hosted_by(life, leads=True)
        life.lab.network.isolate(hosted.state.leader)
        hosted.open_log().high_watermark = 0

    assert "the watermark of" in noticed(plant)


def test_replicas_that_differ_below_the_high_watermark_are_noticed() -> None:
    def plant(life: ClusterLife) -> None:
        node, hosted = hosted_by(life, leads=False)
        first = log_of(hosted)[0]
        folder = node.directory_of(hosted.name)
        assert folder is not None
        path = folder / f"{TOPIC}-0" / f"{0:020}.log"
        # The last byte of the first batch's last value.
        node.disk.open(path).write([b"!"], len(first.content) - 2)

    assert "differ below" in noticed(plant)


def test_an_isr_member_with_missing_records_is_noticed() -> None:
    def plant(life: ClusterLife) -> None:
        node, hosted = hosted_by(life, leads=False)
        life.lab.network.isolate(node.node_id)
        hosted.open_log().truncate_to(1, now_ms=life.lab.time.now_ms)

    assert "is in sync and lacks" in noticed(plant)


def lose_everything(life: ClusterLife, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault limits would spare one of the replicas."""
    for client in life.clients:
        if isinstance(client, Member):
            # Otherwise it would be the first to notice.
            monkeypatch.setattr(client, "turn", lambda: None)
    for node in life.lab.nodes:
        node.crash(loses_power=True)
    life.pass_time(2_000)
    for node in life.lab.nodes:
        node.start()
    life.pass_time(2_000)


def test_acknowledged_records_lost_with_all_replicas_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert noticed(lambda life: lose_everything(life, monkeypatch)).startswith("acknowledged")


def test_records_that_consumers_saw_and_that_vanished_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def plant(life: ClusterLife) -> None:
        for client in life.clients:
            if not isinstance(client, Consumer):
                monkeypatch.setattr(client, "turn", lambda: None)
        # Until nothing is in flight that would still be acknowledged.
        life.pass_time(1_000)
        life.told.places.clear()
        lose_everything(life, monkeypatch)

    assert noticed(plant).startswith("seen")


def test_a_duplicate_record_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def plant(life: ClusterLife) -> None:
        (producer, *_) = (each for each in life.clients if isinstance(each, Producer))
        answered = producer.answered

        def forget(response: Message) -> None:
            """Drop what it was told, but not that it has used the sequence number."""
            values = list(producer.values)
            answered(response)
            if not producer.values:
                producer.values = values
                monkeypatch.undo()

        monkeypatch.setattr(producer, "answered", forget)

    failure = noticed(plant)
    assert "twice" in failure or "and not" in failure


@pytest.mark.parametrize(
    ("deaf_to", "complaint"),
    [
        ((ApiKey.UPDATE_METADATA, ApiKey.LEADER_AND_ISR), "does not have the controller's topics"),
        ((ApiKey.FETCH,), "are in sync in"),
    ],
)
def test_a_cluster_that_does_not_become_idle_is_noticed(
    deaf_to: tuple[ApiKey, ...], complaint: str
) -> None:
    """A broker gets no requests of its controller, or a leader none of a follower."""

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


def test_a_marker_acknowledged_and_not_written_is_noticed() -> None:
    """TX-6: the coordinator completes the transaction, and its records stay hidden."""

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

    assert any(each in noticed(plant) for each in ("open at rest", "UNSTABLE_OFFSET_COMMIT"))


# The shipped store, on a ZooKeeper in memory.


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_cluster_on_zookeeper_keeps_its_guarantees(seed: int) -> None:
    outcome = run_on_zookeeper(seed)
    assert outcome.failure is None, f"{outcome.failure}\nseed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", range(1_000, 5_000, 1_000))
def test_a_cluster_on_zookeeper_keeps_its_guarantees_over_many_seeds(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 25):
        outcome = run_on_zookeeper(seed, steps=300)
        assert outcome.failure is None, f"{outcome.failure}\nseed {seed}"


@pytest.mark.parametrize("seed", range(1, 4))
def test_clients_that_create_and_delete_topics_do_not_disturb_the_controller(seed: int) -> None:
    lab = ClusterNodeLab(3, seed=seed, has_zookeeper=True)
    churners = [
        TopicChurner(lab, ClientGuarantees(), number, is_anything_lost=False) for number in range(5)
    ]
    lab.run(5_000)
    for churner in churners:
        churner.is_leaving = True
    lab.run(2_000)
    assert isinstance(lab.store, TimedZooKeeper)
    assert lab.store.contradictions == []
    assert lab.store.image.version.controller_epoch == 1
    assert all(churner.is_done and churner.rounds > 5 for churner in churners)
    assert dict(lab.store.image.topics) == {}
    assert lab.store.tree.children("/admin/delete_topics") == []
