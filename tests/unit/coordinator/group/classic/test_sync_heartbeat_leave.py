"""SyncGroup, Heartbeat, LeaveGroup and session timeouts."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.classic.classic_group_member import session_timer
from headwater.coordinator.group.classic.classic_rebalance import join_timer, sync_timer
from headwater.coordinator.records.classic_group_records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
)
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    CancelTimer,
    Reply,
    SetTimer,
    TimerFired,
    TimerKey,
)
from headwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.messages.join_group import JoinGroupResponse
from headwater.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from headwater.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.simulation.labs.classic_group_lab import (
    DELAY_MS,
    GROUP,
    NOON_MS,
    REBALANCE_MS,
    SESSION_MS,
    ClassicLab,
)


@pytest.fixture
def lab() -> ClassicLab:
    return ClassicLab()


def completing_group(lab: ClassicLab, size: int) -> list[str]:
    """A group whose members have joined generation 1 and not synced yet."""
    callers = [lab.join(version=3) for _ in range(size)]
    lab.pass_time(2 * DELAY_MS)
    assert lab.group.state_name == "CompletingRebalance"
    return [lab.joined(caller).member_id for caller in callers]


def recorded(member_id: str, assignment: bytes) -> MemberMetadata:
    return MemberMetadata(
        member_id=member_id,
        client_id="client",
        client_host="/10.0.0.1",
        rebalance_timeout=REBALANCE_MS,
        session_timeout=SESSION_MS,
        subscription=b"topics",
        assignment=assignment,
    )


def test_the_leaders_assignments_are_written_before_any_response(lab: ClassicLab) -> None:
    """GR-10."""
    leader, follower = completing_group(lab, 2)
    began_ms = lab.now_ms
    waiting = lab.sync(follower, 1)
    assert lab.effects == []
    lab.pass_time(1_000)
    caller = lab.sync(leader, 1, [(follower, b"p1"), (leader, b"p0"), ("unknown", b"p2")])
    record = GroupMetadataRecord(
        GroupMetadataKey(group=GROUP),
        GroupMetadataValue(
            protocol_type="consumer",
            generation=1,
            protocol="range",
            leader=leader,
            current_state_timestamp=began_ms,
            members=(recorded(leader, b"p0"), recorded(follower, b"p1")),
        ),
    )

    def sync_response(assignment: bytes) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type="consumer", protocol_name="range", assignment=assignment
        )

    assert lab.effects == [
        Append((record,)),
        Reply(caller, sync_response(b"p0")),
        Reply(waiting, sync_response(b"p1")),
    ]
    assert lab.group.state_name == "Stable"


def test_a_member_without_an_assignment_gets_an_empty_one(lab: ClassicLab) -> None:
    """GR-10."""
    leader, follower = completing_group(lab, 2)
    lab.sync(leader, 1, [(leader, b"all")])
    late = lab.sync(follower, 1)
    assert lab.synced(late).error_code is ErrorCode.NONE
    assert lab.synced(late).assignment == b""


def test_assignments_of_a_follower_are_ignored(lab: ClassicLab) -> None:
    """GR-10."""
    leader, follower = completing_group(lab, 2)
    waiting = lab.sync(follower, 1, [(follower, b"all")])
    lab.sync(leader, 1, [(leader, b"p0"), (follower, b"p1")])
    assert lab.synced(waiting).assignment == b"p1"


def test_in_a_stable_group_a_sync_returns_the_assignment_again(lab: ClassicLab) -> None:
    """GR-10."""
    leader, _ = lab.stable_group(2)
    again = lab.sync(leader, 1, [(leader, b"other")])
    assert lab.synced(again).assignment == b"0"
    assert len(lab.log) == 2


def test_a_sync_during_a_rebalance_must_rejoin(lab: ClassicLab) -> None:
    """GR-10."""
    leader, follower = lab.stable_group(2)
    lab.join(leader)
    caller = lab.sync(follower, 1)
    refused = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    assert lab.effects == [Reply(caller, refused)]


def test_a_repeated_sync_is_answered_twice_and_counts_once(lab: ClassicLab) -> None:
    leader, follower = completing_group(lab, 2)
    first, second = lab.sync(follower, 1), lab.sync(follower, 1)
    assert lab.synced(first).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    lab.sync(leader, 1, [(follower, b"p1")])
    assert lab.synced(second).assignment == b"p1"


@pytest.mark.parametrize(
    ("protocol_type", "protocol", "error"),
    [
        (None, None, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", None, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", "range", ErrorCode.NONE),
        ("connect", "range", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", "sticky", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_sync_must_name_its_protocol(
    lab: ClassicLab, protocol_type: str | None, protocol: str | None, error: ErrorCode
) -> None:
    """GR-10, from version 5 on."""
    (leader,) = lab.stable_group(1)
    request = SyncGroupRequest(
        group_id=GROUP,
        generation_id=1,
        member_id=leader,
        protocol_type=protocol_type,
        protocol_name=protocol,
    )
    assert lab.synced(lab.ask(request, 5)).error_code is error


def test_a_sync_of_an_unknown_member_or_another_generation_is_rejected(lab: ClassicLab) -> None:
    """GR-10."""
    (leader,) = lab.stable_group(1)
    assert lab.synced(lab.sync("unknown", 1)).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.synced(lab.sync(leader, 0)).error_code is ErrorCode.ILLEGAL_GENERATION
    assert lab.synced(lab.sync(leader, 2)).error_code is ErrorCode.ILLEGAL_GENERATION


def test_members_that_do_not_sync_in_time_are_removed_and_the_others_rejoin(
    lab: ClassicLab,
) -> None:
    """GR-10."""
    leader, follower = completing_group(lab, 2)
    waiting = lab.sync(follower, 1)
    for _ in range(REBALANCE_MS // 6_000):
        lab.pass_time(6_000)
        if waiting not in lab.replies:
            assert lab.heartbeat(leader, 1) is ErrorCode.NONE
    assert lab.synced(waiting).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert [member.member_id for member in lab.group.members] == [follower]
    assert lab.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.joined(lab.join(follower)).leader == follower


def test_a_stable_group_also_removes_a_follower_that_never_syncs(lab: ClassicLab) -> None:
    """GR-10."""
    leader, follower = completing_group(lab, 2)
    deadline_ms = lab.timers[sync_timer(GROUP)]
    lab.sync(leader, 1)
    assert lab.group.state_name == "Stable"
    lab.now_ms = deadline_ms
    lab.carry_out(lab.group.decide(TimerFired(sync_timer(GROUP), lab.now_ms)))
    assert lab.effects == [
        CancelTimer(session_timer(GROUP, follower)),
        CancelTimer(sync_timer(GROUP)),
        SetTimer(join_timer(GROUP), deadline_ms + REBALANCE_MS),
    ]


def test_after_all_syncs_the_sync_timer_does_nothing(lab: ClassicLab) -> None:
    leader, follower = completing_group(lab, 2)
    lab.sync(leader, 1)
    lab.sync(follower, 1)
    assert sync_timer(GROUP) not in lab.timers
    late = TimerFired(sync_timer(GROUP), lab.now_ms + REBALANCE_MS)
    assert lab.group.decide(late) == []


def test_if_the_assignments_cannot_be_written_the_leader_can_retry(lab: ClassicLab) -> None:
    leader, follower = completing_group(lab, 2)
    lab.can_write = False
    callers = [lab.sync(follower, 1), lab.sync(leader, 1, [(leader, b"all")])]
    for caller in callers:
        assert lab.synced(caller).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert lab.group.state_name == "CompletingRebalance"
    lab.can_write = True
    assert lab.joined(lab.join(leader)).generation_id == 1
    again = lab.sync(leader, 1, [(leader, b"all")])
    assert lab.synced(again).assignment == b"all"


def test_without_a_retry_the_sync_timer_starts_a_rebalance(lab: ClassicLab) -> None:
    leader, follower = completing_group(lab, 2)
    deadline_ms = lab.timers[sync_timer(GROUP)]
    lab.can_write = False
    lab.sync(follower, 1)
    lab.sync(leader, 1)
    lab.now_ms = deadline_ms
    lab.carry_out(lab.group.decide(TimerFired(sync_timer(GROUP), lab.now_ms)))
    assert lab.group.state_name == "PreparingRebalance"


def heartbeat_of(member_id: str, generation: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id)


def test_a_heartbeat_sets_no_timer(lab: ClassicLab) -> None:
    """GR-8. The existing timer finds the later deadline."""
    (leader,) = lab.stable_group(1)
    lab.now_ms = lab.timers[session_timer(GROUP, leader)]
    caller = lab.ask(heartbeat_of(leader, 1))
    assert lab.effects == [Reply(caller, HeartbeatResponse())]
    assert lab.group.decide(TimerFired(session_timer(GROUP, leader), lab.now_ms)) == [
        SetTimer(session_timer(GROUP, leader), lab.now_ms + SESSION_MS)
    ]


def test_a_heartbeat_of_an_unknown_member_or_another_generation_is_rejected(
    lab: ClassicLab,
) -> None:
    """GR-8."""
    assert lab.heartbeat("unknown", 0) is ErrorCode.UNKNOWN_MEMBER_ID
    (leader,) = lab.stable_group(1)
    assert lab.heartbeat("unknown", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.heartbeat(leader, 0) is ErrorCode.ILLEGAL_GENERATION
    assert lab.heartbeat(leader, 2) is ErrorCode.ILLEGAL_GENERATION


def test_a_stale_generation_does_not_extend_the_session(lab: ClassicLab) -> None:
    """GR-8."""
    (leader,) = lab.stable_group(1)
    lab.pass_time(SESSION_MS - 4_000)
    lab.heartbeat(leader, 0)
    lab.pass_time(4_000)
    assert lab.group.members == ()


def test_a_heartbeat_during_a_rebalance_is_an_error_and_extends_the_session(
    lab: ClassicLab,
) -> None:
    """GR-8."""
    leader, follower = lab.stable_group(2)
    lab.join(leader)
    for _ in range(5):
        lab.pass_time(SESSION_MS - 1)
        assert lab.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_before_the_sync_a_heartbeat_succeeds(lab: ClassicLab) -> None:
    """GR-8."""
    leader, follower = completing_group(lab, 2)
    assert lab.heartbeat(leader, 1) is lab.heartbeat(follower, 1) is ErrorCode.NONE


def test_a_member_without_heartbeats_is_removed_after_its_session_timeout(lab: ClassicLab) -> None:
    leader, follower = lab.stable_group(2)
    lab.pass_time(SESSION_MS - 1)
    assert lab.heartbeat(leader, 1) is ErrorCode.NONE
    lab.pass_time(1)
    assert lab.effects == [
        CancelTimer(session_timer(GROUP, follower)),
        CancelTimer(sync_timer(GROUP)),
        SetTimer(join_timer(GROUP), lab.now_ms + REBALANCE_MS),
    ]
    assert lab.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert lab.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def set_back(lab: ClassicLab, key: TimerKey) -> None:
    """Set the clock back by an hour during a wait; timers use another clock."""
    del lab.timers[key]
    lab.now_ms -= 3_600_000
    lab.carry_out(lab.group.decide(TimerFired(key, lab.now_ms)))


def test_setting_the_clock_back_extends_no_session(
    lab: ClassicLab,
) -> None:
    """GR-9."""
    (leader,) = lab.stable_group(1)
    set_back(lab, session_timer(GROUP, leader))
    lab.pass_time(SESSION_MS - 1)
    assert lab.group.state_name == "Stable"
    lab.pass_time(1)
    assert lab.group.members == ()


def test_setting_the_clock_back_extends_no_rebalance(lab: ClassicLab) -> None:
    """GR-4, GR-10."""
    leader, _ = lab.stable_group(2)
    lab.join(leader)
    set_back(lab, join_timer(GROUP))
    lab.pass_time(REBALANCE_MS)
    assert lab.group.state_name == "CompletingRebalance"
    set_back(lab, sync_timer(GROUP))
    lab.pass_time(REBALANCE_MS)
    assert lab.group.state_name != "CompletingRebalance"


def test_a_waiting_join_does_not_expire_and_starts_a_new_session_when_answered(
    lab: ClassicLab,
) -> None:
    """GR-9."""
    leader, follower = lab.stable_group(2)
    waiting = lab.join(leader)
    for _ in range(4):
        lab.pass_time(SESSION_MS - 1)
        lab.heartbeat(follower, 1)
    assert waiting not in lab.replies
    lab.join(follower)
    assert lab.joined(waiting).generation_id == 2
    lab.pass_time(SESSION_MS - 1)
    assert lab.heartbeat(leader, 2) is ErrorCode.NONE


def test_a_waiting_sync_does_not_expire(lab: ClassicLab) -> None:
    """GR-9."""
    leader, follower = completing_group(lab, 2)
    waiting = lab.sync(follower, 1)
    for _ in range(3):
        lab.pass_time(SESSION_MS - 1)
        lab.heartbeat(leader, 1)
    lab.sync(leader, 1, [(follower, b"p1")])
    assert lab.synced(waiting).assignment == b"p1"
    lab.pass_time(SESSION_MS - 1)
    assert lab.heartbeat(follower, 1) is ErrorCode.NONE


def test_the_session_is_watched_again_after_the_response(lab: ClassicLab) -> None:
    """GR-9: the session timer may have fired during the wait."""
    leader, follower = lab.stable_group(2)
    lab.join(leader)
    lab.pass_time(SESSION_MS - 1)
    lab.heartbeat(follower, 1)
    lab.pass_time(2)
    assert session_timer(GROUP, leader) not in lab.timers
    lab.join(follower)
    assert lab.timers[session_timer(GROUP, leader)] == lab.now_ms + SESSION_MS


def test_a_member_that_must_rejoin_gets_a_whole_session_timeout(lab: ClassicLab) -> None:
    """GR-9."""
    leader, follower = completing_group(lab, 2)
    lab.sync(follower, 1)
    lab.pass_time(SESSION_MS - 1)
    lab.heartbeat(leader, 1)
    lab.pass_time(SESSION_MS - 1)
    lab.leave(MemberIdentity(member_id=leader))
    assert lab.timers[session_timer(GROUP, follower)] == lab.now_ms + SESSION_MS


def test_an_incomplete_generation_leaves_no_assignments(lab: ClassicLab) -> None:
    ids = lab.stable_group(2)
    for member_id in ids:
        lab.join(member_id)
    lab.join(version=3)
    assert [member.assignment for member in lab.group.members] == [b"", b"", b""]


def test_members_that_do_not_join_in_time_are_removed_at_the_end_of_the_rebalance(
    lab: ClassicLab,
) -> None:
    """GR-5."""
    leader, follower = lab.stable_group(2)
    waiting = lab.join(leader)
    for _ in range(REBALANCE_MS // 6_000):
        assert waiting not in lab.replies
        lab.pass_time(6_000)
        lab.heartbeat(follower, 1)
    assert [m.member_id for m in lab.joined(waiting).members] == [leader]
    assert lab.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_if_the_leader_does_not_rejoin_another_member_leads(lab: ClassicLab) -> None:
    """GR-6."""
    leader, *followers = lab.stable_group(3)
    lab.pass_time(1)
    callers = [lab.join(member_id) for member_id in followers]
    for member_id, caller in zip(followers, callers, strict=True):
        assert lab.joined(caller).leader == leader, member_id
    lab.leave(MemberIdentity(member_id=leader))
    callers = [lab.join(member_id) for member_id in followers]
    assert {lab.joined(caller).leader for caller in callers} == {followers[0]}


def test_a_member_that_leaves_is_removed_at_once(lab: ClassicLab) -> None:
    """GR-13."""
    leader, follower = lab.stable_group(2)
    request = LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id=follower),))
    caller = lab.ask(request, 5)
    gone = MemberResponse(member_id=follower, group_instance_id=None)
    assert lab.effects == [
        CancelTimer(session_timer(GROUP, follower)),
        CancelTimer(sync_timer(GROUP)),
        SetTimer(join_timer(GROUP), lab.now_ms + REBALANCE_MS),
        Reply(caller, LeaveGroupResponse(members=(gone,))),
    ]
    assert lab.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_last_member_to_leave_leaves_an_empty_group_in_the_log(lab: ClassicLab) -> None:
    """GR-1, GR-13."""
    (leader,) = lab.stable_group(1)
    lab.pass_time(1_000)
    lab.leave(MemberIdentity(member_id=leader))
    assert lab.log[-1].value == GroupMetadataValue(
        protocol_type="consumer", generation=2, current_state_timestamp=lab.now_ms
    )
    assert lab.group.state_name == "Empty"
    assert lab.heartbeat(leader, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.synced(lab.sync(leader, 2)).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_each_leaving_member_has_its_own_result(lab: ClassicLab) -> None:
    """GR-13."""
    leader, follower, _ = lab.stable_group(3)
    response = lab.leave(
        MemberIdentity(member_id=leader),
        MemberIdentity(member_id="unknown"),
        MemberIdentity(member_id=follower, group_instance_id="till-7"),
        MemberIdentity(member_id="", group_instance_id="till-7"),
        MemberIdentity(member_id=""),
        MemberIdentity(member_id=leader),
    )
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert [member.error_code for member in response.members] == [
        ErrorCode.NONE,
        unknown,
        unknown,
        unknown,
        unknown,
        unknown,
    ]
    assert len(lab.group.members) == 2


def test_a_leave_that_removes_no_member_starts_no_rebalance(lab: ClassicLab) -> None:
    lab.stable_group(1)
    lab.leave(MemberIdentity(member_id="unknown"))
    assert lab.group.state_name == "Stable"


def test_a_waiting_request_of_a_leaving_member_is_answered(lab: ClassicLab) -> None:
    """Kafka never answers its sync."""
    leader, follower = completing_group(lab, 2)
    syncing = lab.sync(follower, 1)
    lab.leave(MemberIdentity(member_id=follower))
    assert lab.synced(syncing).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    joining = lab.join(version=3)
    newcomer = lab.group.members[-1].member_id
    lab.leave(MemberIdentity(member_id=newcomer))
    refused = JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert lab.joined(joining) == refused
    assert lab.joined(lab.join(leader)).generation_id == 2


def test_a_pending_member_id_can_leave(lab: ClassicLab) -> None:
    """GR-13. A rebalance waits for a pending id."""
    (leader,) = lab.stable_group(1)
    member_id = lab.joined(lab.join(version=9)).member_id
    waiting = lab.join(leader)
    assert waiting not in lab.replies
    response = lab.leave(MemberIdentity(member_id=member_id))
    assert response.members[0].error_code is ErrorCode.NONE
    assert lab.joined(waiting).generation_id == 2


def test_an_unused_pending_id_delays_a_rebalance_for_a_session_at_most(
    lab: ClassicLab,
) -> None:
    """GR-2."""
    (leader,) = lab.stable_group(1)
    lab.join(version=9)
    waiting = lab.join(leader)
    lab.pass_time(SESSION_MS - 1)
    assert waiting not in lab.replies
    lab.pass_time(1)
    assert lab.joined(waiting).generation_id == 2


def test_early_timers_are_set_again_and_late_ones_do_nothing(lab: ClassicLab) -> None:
    lab.join(version=3)
    deadline_ms = NOON_MS + DELAY_MS
    early = TimerFired(join_timer(GROUP), deadline_ms - 1)
    assert lab.group.decide(early) == [SetTimer(join_timer(GROUP), deadline_ms)]
    lab.pass_time(DELAY_MS)
    late = TimerFired(join_timer(GROUP), deadline_ms + 1)
    assert lab.group.decide(late) == []
    sync_deadline_ms = lab.timers[sync_timer(GROUP)]
    early = TimerFired(sync_timer(GROUP), sync_deadline_ms - 1)
    assert lab.group.decide(early) == [SetTimer(sync_timer(GROUP), sync_deadline_ms)]
    strange = TimerFired(("group", GROUP, "tea"), deadline_ms)
    assert lab.group.decide(strange) == []
