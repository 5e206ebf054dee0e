"""The leader's view of its followers: HW-2, HW-3, ISR-1, ISR-3."""

from headwater.common.ids import NodeId
from headwater.metadata.cluster_image import PartitionRegistration
from headwater.replication.isr_state import CommittedIsr
from headwater.replication.leader_state import FollowerFetch, LeaderRules, LeaderState
from headwater.replication.purgatory.delayed_produce import DelayedProducePurgatory

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
EPOCHS = {ONE: 11, TWO: 12, THREE: 13}
LAG_MS = 1_000


class Session:
    fetched_ms = 0
    broker_epoch = -1


SESSION = Session()


def leading(
    *isr: NodeId, end_offset: int = 0, epochs: dict[NodeId, int] | None = None
) -> LeaderState:
    known = EPOCHS if epochs is None else epochs
    rules = LeaderRules(
        lag_max_ms=LAG_MS,
        is_alive=lambda node: node in known,
        registered_epoch=lambda node: known.get(node, -1),
    )
    state = PartitionRegistration(replicas=(ONE, TWO, THREE), isr=isr, leader=ONE)
    return LeaderState(
        ONE,
        state,
        rules,
        end_offset=end_offset,
        now_ms=0,
        delayed_produces=DelayedProducePurgatory(),
    )


def fetch(
    leader: LeaderState, node_id: NodeId, offset: int, *, end: int, at_ms: int = 0, epoch: int = 0
) -> bool:
    said = FollowerFetch(
        node_id=node_id,
        broker_epoch=epoch or EPOCHS[node_id],
        offset=offset,
        log_start_offset=0,
        session=SESSION,
    )
    return leader.update_follower_fetch_state(said, end_offset=end, now_ms=at_ms)


def committed(leader: LeaderState, end: int, *, min_in_sync: int = 1, at_ms: int = 0) -> int:
    return leader.committed_end(end, min_in_sync=min_in_sync, now_ms=at_ms)


def test_the_high_watermark_is_what_all_isr_members_have() -> None:
    leader = leading(ONE, TWO, THREE)
    fetch(leader, TWO, 7, end=10)
    assert committed(leader, 10) == -1, "the offset of the third one is unknown"
    fetch(leader, THREE, 5, end=10)
    assert committed(leader, 10) == 5


def test_nothing_is_committed_below_min_insync_replicas() -> None:
    leader = leading(ONE)
    assert committed(leader, 10, min_in_sync=2, at_ms=LAG_MS + 1) == -1
    assert committed(leader, 10, min_in_sync=1, at_ms=LAG_MS + 1) == 10


def test_the_high_watermark_waits_for_a_joining_follower_but_not_for_a_laggard() -> None:
    leader = leading(ONE, end_offset=8)
    fetch(leader, TWO, 8, end=8)
    fetch(leader, THREE, 0, end=8)
    leader.appended(10)
    assert committed(leader, 10) == 8
    assert committed(leader, 10, at_ms=LAG_MS + 1) == 10


def test_a_fetch_with_a_stale_broker_epoch_is_ignored() -> None:
    leader = leading(ONE, epochs={**EPOCHS, TWO: 99})
    assert not fetch(leader, TWO, 10, end=10)
    assert leader.expand_isr(TWO, high_watermark=0) is None
    assert fetch(leader, TWO, 10, end=10, epoch=99)
    assert leader.expand_isr(TWO, high_watermark=0) is not None


def test_without_a_registered_epoch_the_epoch_of_the_fetches_counts() -> None:
    leader = leading(ONE, epochs={ONE: 11, TWO: -1, THREE: -1})
    assert fetch(leader, TWO, 3, end=10, epoch=99)
    assert not fetch(leader, TWO, 10, end=10, epoch=98)
    assert leader.followers[TWO].end_offset == 3
    assert leader.expand_isr(TWO, high_watermark=3) is not None, "the controller judges"


def test_a_follower_joins_at_the_high_watermark_and_the_epoch_start() -> None:
    leader = leading(ONE, end_offset=6)
    fetch(leader, TWO, 5, end=8)
    assert leader.expand_isr(TWO, high_watermark=4) is None
    fetch(leader, TWO, 6, end=8)
    assert leader.expand_isr(TWO, high_watermark=7) is None
    proposal = leader.expand_isr(TWO, high_watermark=6)
    assert proposal is not None
    assert proposal.isr == (ONE, TWO)
    assert list(leader.broker_epochs(proposal.isr)) == [(ONE, -1), (TWO, 12)]


def test_a_broker_that_is_not_live_does_not_join_the_isr() -> None:
    leader = leading(ONE, epochs={})
    fetch(leader, TWO, 10, end=10)
    assert leader.expand_isr(TWO, high_watermark=0) is None


def test_a_lagging_follower_is_removed_and_the_leader_never() -> None:
    leader = leading(ONE, TWO, THREE)
    fetch(leader, TWO, 10, end=10)
    fetch(leader, THREE, 9, end=10)
    assert leader.shrink_isr(end_offset=10, now_ms=LAG_MS) is None
    proposal = leader.shrink_isr(end_offset=10, now_ms=LAG_MS + 1)
    assert proposal is not None
    assert proposal.isr == (ONE, TWO)


def test_an_idle_caught_up_follower_joins_when_its_turn_comes() -> None:
    leader = leading(ONE)
    fetch(leader, TWO, 10, end=10)
    fetch(leader, THREE, 10, end=10)
    first = leader.expand_isr(TWO, high_watermark=10)
    assert first is not None
    assert leader.expand_isr_with_any(high_watermark=10, now_ms=0) is None
    leader.isr.handle_response(
        first, CommittedIsr(leader=ONE, leader_epoch=0, isr=(ONE, TWO), partition_epoch=1)
    )
    second = leader.expand_isr_with_any(high_watermark=10, now_ms=0)
    assert second is not None
    assert second.isr == (ONE, TWO, THREE)


def test_the_low_watermark_covers_live_replicas_only() -> None:
    """DR-1."""
    leader = leading(ONE, TWO, THREE, epochs={ONE: 11, TWO: 12})
    assert leader.low_watermark(5) == -1
    fetch(leader, TWO, 9, end=10)
    assert leader.low_watermark(5) == 0
