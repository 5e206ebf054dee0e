"""A leader and its followers' fetches: HW-4, EP-4, EP-5, EP-10, FT-6."""

from collections.abc import Callable, Sequence

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId
from headwater.protocol.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from headwater.replication.fetch.follower_fetch_session import FollowerSession
from headwater.replication.follower_replica import FollowerReplica
from tests.simulation.fakes.scripted_controller import TOPIC_ID
from tests.simulation.labs.broker_lab import Sent
from tests.simulation.worlds.replica_world import NO_LIMIT, ReplicaWorld

ONE, TWO, THREE = NodeId(0), NodeId(1), NodeId(2)
NOT_A_REPLICA = NodeId(7)


class Lab:
    """A leader whose followers are the test's."""

    def __init__(self, count: int = 0, *, partitions: int = 1) -> None:
        self.world = ReplicaWorld(partitions=partitions)
        for node_id in (TWO, THREE):
            self.world.network.isolate(node_id)
        self.world.run(100)
        self.leader = self.world.leader
        for _ in range(count):
            self.world.produce(b"tea", acks=1)
        self.epochs = {
            node_id: broker.epoch for node_id, broker in self.leader.image.brokers.items()
        }

    def fetch(
        self,
        offset: int | None = None,
        *,
        node_id: NodeId = TWO,
        leader_epoch: int = 0,
        last_fetched_epoch: int = -1,
        broker_epoch: int | None = None,
        session: tuple[int, int] = (0, 0),
        wait_ms: int = 0,
        forgets: bool = False,
        partitions: Sequence[int] = (0,),
    ) -> Sent:
        asked = tuple(
            FetchPartition(
                partition=number,
                fetch_offset=offset or 0,
                current_leader_epoch=leader_epoch,
                last_fetched_epoch=last_fetched_epoch,
                log_start_offset=0,
                partition_max_bytes=NO_LIMIT,
            )
            for number in partitions
        )
        topics = (FetchTopic(topic_id=TOPIC_ID, partitions=asked),)
        epoch = self.epochs.get(node_id, -1) if broker_epoch is None else broker_epoch
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=node_id, replica_epoch=epoch),
            max_wait_ms=wait_ms,
            min_bytes=1,
            session_id=session[0],
            session_epoch=session[1],
            topics=() if offset is None else topics,
            forgotten_topics_data=(ForgottenTopic(topic_id=TOPIC_ID, partitions=(0,)),)
            if forgets
            else (),
        )
        return self.leader.send(request)

    def state_of(self, node_id: NodeId) -> FollowerReplica:
        leading = self.leader.hosted.leader_state
        assert leading is not None
        return leading.followers[node_id]

    def session(self, session_id: int) -> FollowerSession:
        session = self.leader.broker.sessions.get(session_id)
        assert isinstance(session, FollowerSession)
        return session


def partitions_in(sent: Sent) -> list[PartitionData]:
    return [each for topic in sent.answer(FetchResponse).responses for each in topic.partitions]


def only(sent: Sent) -> PartitionData:
    (partition,) = partitions_in(sent)
    return partition


def session_of(sent: Sent) -> int:
    return sent.answer(FetchResponse).session_id


def test_follower_reads_above_the_high_watermark() -> None:
    """HW-6."""
    lab = Lab(2)
    assert only(lab.fetch(0)).records
    assert not lab.world.fetch(lab.leader, 0).records


def test_fetch_offset_counts_if_the_leader_has_it() -> None:
    lab = Lab(2)
    refused = only(lab.fetch(3))
    assert refused.error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert lab.state_of(TWO).end_offset == -1
    assert only(lab.fetch(2)).error_code is ErrorCode.NONE
    assert lab.state_of(TWO).end_offset == 2


def test_leader_epoch_is_checked_first() -> None:
    """EP-4."""
    lab = Lab(2)
    lab.world.controller.elect(ONE)
    lab.world.run(100)
    assert only(lab.fetch(99, leader_epoch=0)).error_code is ErrorCode.FENCED_LEADER_EPOCH
    assert only(lab.fetch(99, leader_epoch=2)).error_code is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert only(lab.fetch(2, leader_epoch=1)).error_code is ErrorCode.NONE
    assert only(lab.fetch(2, leader_epoch=-1)).error_code is ErrorCode.NONE


def test_diverging_follower_gets_the_end_offset_and_its_offset_does_not_count() -> None:
    """EP-5."""
    lab = Lab(2)
    lab.world.controller.elect(ONE)
    lab.world.run(100)
    lab.world.produce(b"coffee", acks=1)
    answer = only(lab.fetch(3, leader_epoch=1, last_fetched_epoch=0))
    assert answer.diverging_epoch == EpochEndOffset(epoch=0, end_offset=2)
    assert (answer.error_code, answer.records) == (ErrorCode.NONE, b"")
    assert lab.state_of(TWO).end_offset == -1


def test_non_replica_cannot_fetch_as_a_follower() -> None:
    """EP-10."""
    lab = Lab(1)
    with_epoch = only(lab.fetch(0, node_id=NOT_A_REPLICA))
    assert with_epoch.error_code is ErrorCode.UNKNOWN_LEADER_EPOCH
    without = only(lab.fetch(0, node_id=NOT_A_REPLICA, leader_epoch=-1))
    assert without.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_fetch_with_an_old_broker_epoch_is_rejected() -> None:
    lab = Lab(2)
    late = only(lab.fetch(2, broker_epoch=lab.epochs[TWO] - 1))
    assert late.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert lab.state_of(TWO).end_offset == -1


def test_fetch_without_changes_examines_no_partition() -> None:
    """So an idle partition costs nothing."""
    lab = Lab()
    session_id = session_of(lab.fetch(0))
    assert partitions_in(lab.fetch(session=(session_id, 1))) == []
    assert not lab.session(session_id).due
    assert partitions_in(lab.fetch(session=(session_id, 2))) == []


def test_high_watermark_is_sent_once_when_it_has_moved() -> None:
    """FT-6. A waiting fetch gets it too."""
    lab = Lab(1)
    two = session_of(lab.fetch(1, node_id=TWO))
    three = lab.fetch(1, node_id=THREE)
    assert only(three).high_watermark == 1, "its own fetch has brought it about"
    assert only(lab.fetch(session=(two, 1), node_id=TWO)).high_watermark == 1
    assert partitions_in(lab.fetch(session=(two, 2), node_id=TWO)) == []


def test_fetch_waits_for_records_but_not_for_high_watermarks() -> None:
    lab = Lab(1)
    session_id = session_of(lab.fetch(1))
    waiting = lab.fetch(session=(session_id, 1), wait_ms=500)
    lab.fetch(1, node_id=THREE)
    lab.world.run(100)
    assert not waiting.is_answered
    lab.world.produce(b"tea", acks=1)
    lab.world.run(1)
    assert only(waiting).records
    assert only(waiting).high_watermark == 1


class Consequence:
    """Acts when a record is committed: `DelayedProduce`."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def committed(self, code: ErrorCode) -> None:
        assert code is ErrorCode.NONE
        self._act()


def test_append_caused_by_a_fetch_does_not_wait_for_its_timeout() -> None:
    """Such as markers of a transaction, whose end is committed by this very fetch."""
    lab = Lab(1, partitions=4)
    session_id = session_of(lab.fetch(0, partitions=(0, 3)))
    lab.fetch(1, node_id=THREE)
    marker = Consequence(lambda: lab.world.produce(b"marker", acks=1, number=3))
    assert lab.leader.hosted.add_delayed_produce(marker, 1)
    waiting = lab.fetch(1, session=(session_id, 1), wait_ms=500)
    lab.world.run(1)
    assert [each.partition_index for each in partitions_in(waiting) if each.records] == [3]


def test_second_fetch_of_a_session_completes_the_first() -> None:
    lab = Lab()
    session_id = session_of(lab.fetch(0))
    first = lab.fetch(session=(session_id, 1), wait_ms=500)
    assert not first.is_answered
    second = lab.fetch(session=(session_id, 2), wait_ms=500)
    assert (partitions_in(first), second.is_answered) == ([], False)
    lab.world.produce(b"tea", acks=1)
    lab.world.run(1)
    assert only(second).records


def test_forgotten_partition_is_no_longer_fetched() -> None:
    lab = Lab()
    session_id = session_of(lab.fetch(0))
    now_ms = lab.leader.clock.steady_ms()
    assert lab.state_of(TWO).is_fetching(now_ms=now_ms, lag_max_ms=100)
    lab.fetch(session=(session_id, 1), forgets=True)
    assert not lab.state_of(TWO).is_fetching(now_ms=now_ms, lag_max_ms=100)
    assert not lab.leader.hosted.tail_listeners


def test_new_session_replaces_the_old_one() -> None:
    lab = Lab()
    first = session_of(lab.fetch(0))
    lab.fetch(0, session=(first, 0))
    assert len(lab.leader.hosted.tail_listeners) == 1
    lab.fetch(0, session=(first, -1))
    assert len(lab.leader.hosted.tail_listeners) == 1, (
        "a fetch without a session leaves nothing behind"
    )


def test_follower_cannot_use_the_session_of_another() -> None:
    lab = Lab()
    session_id = session_of(lab.fetch(0))
    answer = lab.fetch(session=(session_id, 1), node_id=THREE).answer(FetchResponse)
    assert answer.error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_older_partition_state_is_ignored() -> None:
    lab = Lab()
    hosted = lab.leader.hosted
    old = hosted.state
    lab.world.controller.elect(ONE, isr=(ONE, TWO))
    lab.world.run(100)
    new = hosted.state
    assert new.partition_epoch > old.partition_epoch
    hosted.update_state(old)
    assert hosted.state is new
