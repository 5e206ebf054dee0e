"""JoinGroup: member ids, protocols, leaders, limits."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.group.classic.classic_group import ClassicGroup
from headwater.coordinator.group.classic.classic_group_member import session_timer
from headwater.coordinator.group.classic.classic_rebalance import (
    ClassicLimits,
    join_timer,
    sync_timer,
)
from headwater.coordinator.group.classic.classic_request_checks import (
    check_request,
    creates_group,
    reject_without_group,
)
from headwater.coordinator.records.classic_group_records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
)
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Caller,
    CancelTimer,
    Reply,
    RequestEvent,
    SetTimer,
)
from headwater.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from headwater.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from tests.simulation.labs.classic_group_lab import (
    DELAY_MS,
    GROUP,
    NOON_MS,
    REBALANCE_MS,
    SESSION_MS,
    ClassicLab,
    join_request,
    protocols,
)

NEW_GROUP = Append(
    (
        GroupMetadataRecord(
            GroupMetadataKey(group=GROUP), GroupMetadataValue(current_state_timestamp=NOON_MS)
        ),
    )
)


@pytest.fixture
def lab() -> ClassicLab:
    return ClassicLab()


def asked(request: JoinGroupRequest | LeaveGroupRequest) -> RequestEvent:
    return RequestEvent(
        request=request,
        version=4,
        caller=Caller(1),
        client_id="client",
        client_host="/10.0.0.1",
        now_ms=NOON_MS,
    )


def test_a_new_member_gets_an_id_and_must_rejoin_with_it(lab: ClassicLab) -> None:
    """GR-2."""
    caller = lab.join(version=4)
    member_id = lab.joined(caller).member_id
    assert lab.effects == [
        SetTimer(session_timer(GROUP, member_id), NOON_MS + SESSION_MS),
        NEW_GROUP,
        Reply(
            caller, JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        ),
    ]
    assert member_id.startswith("client-")
    assert [len(part) for part in member_id.split("-")] == [6, 8, 4, 4, 4, 12]


def test_a_pending_member_id_can_join(lab: ClassicLab) -> None:
    """GR-2, GR-5."""
    member_id = lab.joined(lab.join(version=4)).member_id
    caller = lab.join(member_id, version=4)
    assert lab.effects == [
        SetTimer(session_timer(GROUP, member_id), NOON_MS + 300_000),
        CancelTimer(sync_timer(GROUP)),
        SetTimer(join_timer(GROUP), NOON_MS + DELAY_MS),
    ]
    assert caller not in lab.replies
    assert lab.group.state_name == "PreparingRebalance"


def test_a_pending_member_id_expires_after_the_session_timeout(lab: ClassicLab) -> None:
    """GR-2."""
    member_id = lab.joined(lab.join(version=4)).member_id
    assert not lab.group.is_empty
    lab.pass_time(SESSION_MS)
    assert lab.group.is_empty
    refused = lab.joined(lab.join(member_id, version=4))
    assert refused.error_code is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_old_clients_join_at_once(lab: ClassicLab, version: int) -> None:
    """GR-2."""
    caller = lab.join(version=version)
    assert caller not in lab.replies
    lab.pass_time(DELAY_MS)
    assert lab.joined(caller).generation_id == 1


def test_a_static_member_joins_at_once_with_an_id_from_its_instance_id(lab: ClassicLab) -> None:
    """GR-2."""
    caller = lab.join(instance="till-7")
    lab.pass_time(DELAY_MS)
    assert lab.joined(caller).member_id.startswith("till-7-")


def test_the_first_member_is_the_leader_and_only_it_gets_the_member_list(lab: ClassicLab) -> None:
    """GR-1, GR-5, GR-6."""
    first, second = lab.join(version=3), lab.join(version=3)
    lab.pass_time(2 * DELAY_MS)
    leader, follower = lab.joined(first), lab.joined(second)
    assert leader == JoinGroupResponse(
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=leader.member_id,
        member_id=leader.member_id,
        members=(
            JoinGroupResponseMember(member_id=leader.member_id, metadata=b"topics"),
            JoinGroupResponseMember(member_id=follower.member_id, metadata=b"topics"),
        ),
    )
    assert follower == JoinGroupResponse(
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=leader.member_id,
        member_id=follower.member_id,
    )
    assert lab.group.state_name == "CompletingRebalance"


def test_a_single_member_waits_for_the_initial_delay_and_no_longer(lab: ClassicLab) -> None:
    """GR-5."""
    caller = lab.join(version=3)
    lab.pass_time(DELAY_MS - 1)
    assert caller not in lab.replies
    lab.pass_time(1)
    assert caller in lab.replies


def test_each_new_member_extends_the_first_rebalance_up_to_its_timeout(lab: ClassicLab) -> None:
    """GR-5: 3 + 3 + 3 + 1 seconds."""
    callers = [lab.ask(join_request(rebalance_ms=10_000), 3)]
    for _ in range(9):
        lab.pass_time(1_000)
        assert not lab.replies
        callers.append(lab.ask(join_request(rebalance_ms=10_000), 3))
    lab.pass_time(999)
    assert not lab.replies
    lab.pass_time(1)
    assert sorted(lab.replies) == callers


def test_a_first_rebalance_waits_for_its_delay_even_if_all_have_joined(
    lab: ClassicLab,
) -> None:
    """GR-5."""
    caller = lab.join(version=3)
    member_id = lab.group.members[0].member_id
    again = lab.join(member_id, version=3)
    assert again not in lab.replies
    assert lab.joined(caller).error_code is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("member_id", ["unknown", "client-1"])
def test_an_unknown_member_id_is_rejected(lab: ClassicLab, member_id: str) -> None:
    """GR-3."""
    lab.stable_group(1)
    caller = lab.join(member_id)
    assert lab.effects == [
        Reply(
            caller,
            JoinGroupResponse(
                error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=member_id, protocol_name=None
            ),
        )
    ]


def test_before_version_7_an_error_has_an_empty_protocol_and_not_null(lab: ClassicLab) -> None:
    lab.stable_group(1)
    assert lab.joined(lab.join("unknown", version=6)).protocol_name == ""


def test_other_protocol_types_and_unsupported_protocols_are_rejected(lab: ClassicLab) -> None:
    """GR-3."""
    lab.stable_group(1)
    for request in (
        join_request(protocol_type="connect"),
        join_request(offers=protocols("sticky")),
        join_request(offers=()),
    ):
        caller = lab.ask(request)
        refused = JoinGroupResponse(
            error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, protocol_name=None
        )
        assert lab.effects == [Reply(caller, refused)]


@pytest.mark.parametrize(
    "request_", [join_request(protocol_type=""), join_request(offers=())], ids=["type", "protocols"]
)
def test_a_group_cannot_start_without_a_protocol(
    lab: ClassicLab, request_: JoinGroupRequest
) -> None:
    """GR-3."""
    response = lab.joined(lab.ask(request_))
    assert response.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_preferred_common_protocol_is_chosen(
    lab: ClassicLab,
) -> None:
    """GR-6."""
    offers = [
        protocols("sticky", "range"),
        protocols("range", "sticky", "roundrobin"),
        protocols("roundrobin", "range", "sticky"),
    ]
    callers = [lab.ask(join_request(offers=offer), 3) for offer in offers]
    lab.pass_time(2 * DELAY_MS)
    assert {lab.joined(caller).protocol_name for caller in callers} == {"range"}


def test_a_full_group_accepts_only_its_members() -> None:
    """GR-3: group.max.size."""
    lab = ClassicLab(ClassicLimits(max_size=2))
    leader, follower = lab.stable_group(2)
    caller = lab.join(version=4)
    full = JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert lab.effects == [Reply(caller, full)]
    assert lab.joined(lab.join(follower)).generation_id == 1
    again = lab.join(leader)
    assert again not in lab.replies


def test_a_group_above_a_lowered_limit_rejects_the_last_members_to_join() -> None:
    """GR-3, GR-17."""
    lab = ClassicLab()
    ids = lab.stable_group(3)
    lab.limits = ClassicLimits(max_size=2)
    lab.restart()
    assert lab.group.state_name == "PreparingRebalance"
    callers = [lab.join(member_id) for member_id in ids]
    errors = [lab.joined(caller).error_code for caller in callers]
    assert errors == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert lab.group.generation == 2


def test_a_leader_that_rejoins_a_stable_group_starts_a_rebalance(lab: ClassicLab) -> None:
    """GR-7."""
    leader, follower = lab.stable_group(2)
    caller = lab.join(leader)
    assert caller not in lab.replies
    assert lab.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = lab.join(follower)
    assert lab.joined(caller).generation_id == lab.joined(again).generation_id == 2


def test_a_follower_that_rejoins_a_stable_group_gets_the_same_generation(
    lab: ClassicLab,
) -> None:
    """GR-7."""
    leader, follower = lab.stable_group(2)
    caller = lab.join(follower)
    assert lab.effects == [
        Reply(
            caller,
            JoinGroupResponse(
                generation_id=1,
                protocol_type="consumer",
                protocol_name="range",
                leader=leader,
                member_id=follower,
            ),
        )
    ]


def test_a_follower_with_another_subscription_starts_a_rebalance(lab: ClassicLab) -> None:
    """GR-7."""
    _, follower = lab.stable_group(2)
    caller = lab.ask(join_request(follower, offers=protocols("range", metadata=b"others")))
    assert caller not in lab.replies
    assert lab.group.state_name == "PreparingRebalance"


def test_a_member_that_missed_its_generation_gets_it_again(lab: ClassicLab) -> None:
    """GR-7."""
    first, second = lab.join(version=3), lab.join(version=3)
    lab.pass_time(2 * DELAY_MS)
    for caller in (first, second):
        told = lab.joined(caller)
        assert lab.joined(lab.join(told.member_id)) == told


def test_a_repeated_join_is_answered_twice_and_counts_once(lab: ClassicLab) -> None:
    """Kafka never answers the first."""
    leader, follower = lab.stable_group(2)
    first, second = lab.join(leader), lab.join(leader)
    assert lab.joined(first).error_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert second not in lab.replies
    lab.join(follower)
    assert lab.joined(second).generation_id == 2


def test_a_rejoin_may_change_the_timeouts(lab: ClassicLab) -> None:
    (leader,) = lab.stable_group(1)
    lab.ask(join_request(leader, session_ms=7_000, rebalance_ms=30_000))
    lab.sync(leader, 2, [(leader, b"all")])
    (member,) = lab.log[-1].value.members if lab.log[-1].value else ()
    assert (member.session_timeout, member.rebalance_timeout) == (7_000, 30_000)


def test_a_pending_id_is_for_a_dynamic_member_only(lab: ClassicLab) -> None:
    member_id = lab.joined(lab.join(version=9)).member_id
    response = lab.joined(lab.join(member_id, instance="till-7"))
    assert response.error_code is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_a_session_timeout_out_of_range_is_rejected_before_a_group_is_created(
    session_ms: int,
) -> None:
    """GR-3."""
    request = join_request("me", session_ms=session_ms)
    refused = JoinGroupResponse(error_code=ErrorCode.INVALID_SESSION_TIMEOUT, member_id="me")
    assert check_request(asked(request), request, ClassicLimits()) == [Reply(Caller(1), refused)]


@pytest.mark.parametrize("session_ms", [6_000, 1_800_000])
def test_a_session_timeout_in_range_is_accepted(session_ms: int) -> None:
    request = join_request(session_ms=session_ms)
    assert check_request(asked(request), request, ClassicLimits()) == []


def test_a_group_id_is_required() -> None:
    """GR-3."""
    request = JoinGroupRequest(session_timeout_ms=SESSION_MS)
    refused = JoinGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    assert check_request(asked(request), request, ClassicLimits()) == [Reply(Caller(1), refused)]


def test_only_a_join_without_a_member_id_creates_a_group() -> None:
    """GR-3."""
    assert creates_group(join_request())
    request = join_request("me")
    assert not creates_group(request)
    refused = JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id="me")
    assert reject_without_group(asked(request), request) == [Reply(Caller(1), refused)]


def test_leaving_an_unknown_group_is_rejected() -> None:
    request = LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id="me"),))
    member = MemberResponse(
        member_id="me", group_instance_id=None, error_code=ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert reject_without_group(asked(request), request) == [
        Reply(Caller(1), LeaveGroupResponse(members=(member,)))
    ]


def test_a_new_member_that_waits_for_five_minutes_is_removed(lab: ClassicLab) -> None:
    """GR-9."""
    lab.stable_group(1)
    (leader,) = lab.group.members
    leader.rebalance_timeout_ms = 900_000
    newcomer = lab.ask(join_request(rebalance_ms=900_000), 3)
    for _ in range(60):
        assert newcomer not in lab.replies
        lab.pass_time(5_000)
        assert lab.heartbeat(leader.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert lab.joined(newcomer) == JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert lab.group.members == (leader,)


def test_a_dead_group_answers_coordinator_not_available(lab: ClassicLab) -> None:
    """GR-8."""
    (leader,) = lab.stable_group(1)
    lab.carry_out(lab.group.close(ErrorCode.NOT_COORDINATOR))
    error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert lab.joined(lab.join(leader)).error_code is error
    assert lab.synced(lab.sync(leader, 1)).error_code is error
    assert lab.heartbeat(leader, 1) is error
    assert lab.leave(MemberIdentity(member_id=leader)).error_code is error


def test_a_new_group_that_could_not_be_written_is_written_with_the_next_join(
    lab: ClassicLab,
) -> None:
    lab.can_write = False
    refused = lab.joined(lab.join(version=4))
    assert refused.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    lab.can_write = True
    lab.join(version=4)
    assert lab.log == list(NEW_GROUP.records)
    assert isinstance(lab.group, ClassicGroup)


def test_the_largest_rebalance_timeout_applies(lab: ClassicLab) -> None:
    """GR-4."""
    slow = lab.ask(join_request(rebalance_ms=2 * REBALANCE_MS), 3)
    lab.pass_time(DELAY_MS)
    slow_id = lab.joined(slow).member_id
    lab.sync(slow_id, 1)
    lab.join(version=3)
    assert lab.timers[join_timer(GROUP)] == lab.now_ms + 2 * REBALANCE_MS
