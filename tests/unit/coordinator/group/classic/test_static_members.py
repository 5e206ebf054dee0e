"""Static members: an instance that rejoins keeps its place (GR-14)."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.classic.classic_group_member import session_timer
from headwater.coordinator.group.classic.classic_rebalance import join_timer, sync_timer
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    CancelTimer,
    Reply,
    SetTimer,
    TimerFired,
)
from headwater.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from headwater.protocol.messages.leave_group import MemberIdentity
from tests.simulation.labs.classic_group_lab import (
    DELAY_MS,
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    ClassicLab,
    join_request,
    protocols,
)

TILL = "till-7"


@pytest.fixture
def lab() -> ClassicLab:
    return ClassicLab()


def test_a_static_leader_that_rejoins_keeps_its_role_and_assigns_nothing(lab: ClassicLab) -> None:
    """GR-14, from version 9 on; written before it is answered."""
    old, follower = lab.stable_group(2, instance=TILL)
    caller = lab.join(instance=TILL, version=9)
    new = lab.group.members[0].member_id
    assert lab.effects == [
        CancelTimer(session_timer(GROUP, old)),
        SetTimer(session_timer(GROUP, new), lab.now_ms + SESSION_MS),
        Append((lab.log[-1],)),
        Reply(
            caller,
            JoinGroupResponse(
                generation_id=1,
                protocol_type="consumer",
                protocol_name="range",
                leader=new,
                skip_assignment=True,
                member_id=new,
                members=(
                    JoinGroupResponseMember(
                        member_id=new, group_instance_id=TILL, metadata=b"topics"
                    ),
                    JoinGroupResponseMember(member_id=follower, metadata=b"topics"),
                ),
            ),
        ),
    ]
    assert new != old
    assert lab.group.state_name == "Stable"
    written = lab.log[-1].value
    assert written is not None
    assert [(m.member_id, m.assignment) for m in written.members] == [
        (new, b"0"),
        (follower, b"1"),
    ]
    assert written.leader == new
    assert lab.synced(lab.sync(new, 1, instance=TILL)).assignment == b"0"


def test_before_version_9_a_static_leader_gets_its_old_id_as_leader(
    lab: ClassicLab,
) -> None:
    """GR-14 (KIP-814)."""
    old, _ = lab.stable_group(2, instance=TILL)
    response = lab.joined(lab.join(instance=TILL, version=8))
    assert response.leader == old
    assert response.member_id != old
    assert response.members == ()
    assert not response.skip_assignment


def test_a_static_follower_that_rejoins_causes_no_rebalance(lab: ClassicLab) -> None:
    """GR-14."""
    leader = lab.join(version=3)
    static = lab.join(instance=TILL)
    lab.pass_time(2 * DELAY_MS)
    leader_id, old = lab.joined(leader).member_id, lab.joined(static).member_id
    lab.sync(leader_id, 1, [(leader_id, b"p0"), (old, b"p1")])
    lab.sync(old, 1, instance=TILL)
    response = lab.joined(lab.join(instance=TILL))
    assert (response.leader, response.members, response.skip_assignment) == (leader_id, (), False)
    assert lab.heartbeat(leader_id, 1) is ErrorCode.NONE
    again = lab.sync(response.member_id, 1, instance=TILL)
    assert lab.synced(again).assignment == b"p1"


def test_the_replaced_member_id_is_fenced_in_every_request(lab: ClassicLab) -> None:
    """GR-14."""
    old, _ = lab.stable_group(2, instance=TILL)
    lab.join(instance=TILL)
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert lab.heartbeat(old, 1, instance=TILL) is fenced
    assert lab.synced(lab.sync(old, 1, instance=TILL)).error_code is fenced
    assert lab.joined(lab.join(old, instance=TILL)).error_code is fenced
    left = lab.leave(MemberIdentity(member_id=old, group_instance_id=TILL))
    assert left.members[0].error_code is fenced
    commit = lab.group.validate_commit(
        member_id=old,
        group_instance_id=TILL,
        generation_or_epoch=1,
        is_transactional=False,
        version=8,
    )
    assert commit is fenced


def test_without_its_instance_id_the_replaced_member_is_unknown(lab: ClassicLab) -> None:
    old, _ = lab.stable_group(2, instance=TILL)
    lab.join(instance=TILL)
    assert lab.heartbeat(old, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unknown_instance_is_an_unknown_member(lab: ClassicLab) -> None:
    leader, _ = lab.stable_group(2)
    assert lab.heartbeat(leader, 1, instance=TILL) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_waiting_join_of_a_replaced_member_is_answered(lab: ClassicLab) -> None:
    """GR-14."""
    first = lab.join(instance=TILL)
    old = lab.group.members[0].member_id
    second = lab.join(instance=TILL)
    assert lab.replies[first] == JoinGroupResponse(
        error_code=ErrorCode.FENCED_INSTANCE_ID, member_id=old, protocol_name=None
    )
    lab.pass_time(DELAY_MS)
    assert lab.joined(second).generation_id == 1


def test_a_static_member_that_rejoins_in_the_sync_phase_starts_a_rebalance(
    lab: ClassicLab,
) -> None:
    """GR-14 (KAFKA-9801), and its waiting sync is answered."""
    leader = lab.join(version=3)
    static = lab.join(instance=TILL)
    lab.pass_time(2 * DELAY_MS)
    leader_id, old = lab.joined(leader).member_id, lab.joined(static).member_id
    syncing = lab.sync(old, 1, instance=TILL)
    caller = lab.join(instance=TILL)
    assert lab.synced(syncing).error_code is ErrorCode.FENCED_INSTANCE_ID
    assert caller not in lab.replies
    assert lab.group.state_name == "PreparingRebalance"
    assert lab.joined(lab.join(leader_id)).generation_id == 2
    assert lab.joined(caller).generation_id == 2


def test_a_static_member_that_rejoins_with_another_preference_starts_a_rebalance(
    lab: ClassicLab,
) -> None:
    """GR-14."""
    offers = protocols("range", "sticky")
    caller = lab.ask(join_request(instance=TILL, offers=offers))
    lab.pass_time(DELAY_MS)
    lab.sync(lab.joined(caller).member_id, 1, instance=TILL)
    assert lab.group.state_name == "Stable"
    again = lab.ask(join_request(instance=TILL, offers=protocols("sticky", "range")))
    assert lab.joined(again).generation_id == 2
    assert lab.joined(again).protocol_name == "sticky"


def test_a_static_member_that_rejoins_may_change_subscription_and_timeouts(lab: ClassicLab) -> None:
    """GR-14."""
    lab.stable_group(1, instance=TILL)
    request = join_request(
        instance=TILL,
        offers=protocols("range", metadata=b"others"),
        session_ms=20_000,
        rebalance_ms=30_000,
    )
    response = lab.joined(lab.ask(request))
    assert response.members[0].metadata == b"others"
    written = lab.log[-1].value
    assert written is not None
    (member,) = written.members
    assert (member.session_timeout, member.rebalance_timeout) == (20_000, 30_000)


def test_a_replacement_that_could_not_be_written_can_be_retried(lab: ClassicLab) -> None:
    old, follower = lab.stable_group(2, instance=TILL)
    lab.can_write = False
    refused = lab.joined(lab.join(instance=TILL))
    assert refused.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    lab.can_write = True
    new = lab.joined(lab.join(instance=TILL)).member_id
    assert lab.synced(lab.sync(new, 1, instance=TILL)).assignment == b"0"
    assert lab.heartbeat(follower, 1) is ErrorCode.NONE
    assert lab.heartbeat(old, 1, instance=TILL) is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_without_heartbeats_stays_through_a_rebalance(lab: ClassicLab) -> None:
    """GR-5: until its session ends."""
    leader = lab.join(version=3)
    static = lab.ask(join_request(instance=TILL, session_ms=10 * REBALANCE_MS))
    lab.pass_time(2 * DELAY_MS)
    leader_id, static_id = lab.joined(leader).member_id, lab.joined(static).member_id
    lab.sync(static_id, 1, instance=TILL)
    lab.sync(leader_id, 1)
    waiting = lab.join(leader_id)
    lab.pass_time(REBALANCE_MS)
    assert [m.member_id for m in lab.joined(waiting).members] == [leader_id, static_id]


def test_a_group_of_absent_static_members_waits_for_their_sessions(lab: ClassicLab) -> None:
    """GR-5. A rebalance without any joined member makes no generation."""
    leader, follower = lab.stable_group(2, instance=TILL)
    lab.group.members[0].session_timeout_ms = 3 * REBALANCE_MS
    lab.heartbeat(leader, 1, instance=TILL)
    lab.leave(MemberIdentity(member_id=follower))
    lab.pass_time(REBALANCE_MS)
    assert lab.group.generation == 1
    assert lab.timers[join_timer(GROUP)] == lab.now_ms + REBALANCE_MS
    lab.pass_time(2 * REBALANCE_MS)
    assert (lab.group.state_name, lab.group.generation) == ("Empty", 2)


def test_an_operator_removes_an_instance_without_knowing_its_member_id(lab: ClassicLab) -> None:
    """GR-13."""
    old, follower = lab.stable_group(2, instance=TILL)
    response = lab.leave(MemberIdentity(member_id="", group_instance_id=TILL))
    assert response.members[0].error_code is ErrorCode.NONE
    assert response.members[0].member_id == ""
    assert [member.member_id for member in lab.group.members] == [follower]
    assert lab.heartbeat(old, 1, instance=TILL) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_rejoins_inherits_the_missing_sync(lab: ClassicLab) -> None:
    """Kafka waits for the old one's sync in vain and then rebalances needlessly."""
    leader = lab.join(version=3)
    lab.join(instance=TILL)
    lab.pass_time(2 * DELAY_MS)
    deadline_ms = lab.timers[sync_timer(GROUP)]
    leader_id = lab.joined(leader).member_id
    lab.sync(leader_id, 1)
    new = lab.joined(lab.join(instance=TILL)).member_id
    late = TimerFired(sync_timer(GROUP), deadline_ms)
    assert CancelTimer(session_timer(GROUP, new)) in lab.group.decide(late)
    assert [member.member_id for member in lab.group.members] == [leader_id]


def test_a_leader_stays_leader_although_others_joined_earlier(lab: ClassicLab) -> None:
    """GR-6."""
    silent = lab.ask(join_request(instance=TILL, session_ms=10 * REBALANCE_MS))
    other = lab.join(version=3)
    lab.pass_time(2 * DELAY_MS)
    silent_id, other_id = lab.joined(silent).member_id, lab.joined(other).member_id
    assert lab.joined(other).leader == silent_id
    lab.sync(other_id, 1)
    lab.sync(silent_id, 1, instance=TILL)
    waiting = lab.ask(join_request(other_id, offers=protocols("range", metadata=b"others")))
    lab.pass_time(REBALANCE_MS)
    assert lab.joined(waiting).leader == other_id
    lab.join(other_id)
    lab.sync(other_id, 2)
    lab.join(other_id)
    again = lab.ask(join_request(silent_id, instance=TILL))
    assert lab.joined(again).generation_id == 3
    assert lab.joined(again).leader == other_id
