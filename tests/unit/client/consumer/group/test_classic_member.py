"""The state machine of a classic group member."""

from headwater.client.assignors import COOPERATIVE_STICKY, RANGE, Assignor
from headwater.client.consumer.group.classic_member import ClassicMember, Stage
from headwater.client.consumer.group.member import (
    AssignmentChange,
    Identity,
    MemberSettings,
    Rebalance,
)
from headwater.client.errors import FencedInstanceId, NetworkException
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition
from headwater.protocol.consumer_protocol import (
    ConsumerAssignment,
    Subscription,
    named_partitions,
    partitions_of,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from headwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from headwater.protocol.messages.leave_group import LeaveGroupRequest
from headwater.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from headwater.protocol.older_versions import Message

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Group:
    """One member and a scripted coordinator."""

    def __init__(self, *assignors: Assignor, instance: str | None = None) -> None:
        settings = MemberSettings(
            group_id="g",
            group_instance_id=instance,
            session_timeout_ms=10_000,
            heartbeat_interval_ms=1_000,
            max_poll_interval_ms=60_000,
            retry_backoff_ms=100,
        )
        self.member = ClassicMember(settings, assignors or (RANGE,))
        self.now_ms = 0
        self.member.subscribe(["t"])
        self.member.polled(0)

    def asks(self) -> Message | None:
        ask = self.member.next_request(self.now_ms)
        return None if ask is None else ask.request

    def receives(self, response: Message) -> None:
        self.member.handle_response(response, self.now_ms)

    def joins(self, *, generation: int = 1, leader: str = "other") -> JoinGroupRequest:
        request = self.asks()
        assert isinstance(request, JoinGroupRequest)
        self.receives(
            JoinGroupResponse(
                generation_id=generation,
                protocol_name=request.protocols[0].name,
                leader=leader,
                member_id="me",
            )
        )
        return request

    def syncs(self, *partitions: TopicPartition) -> SyncGroupRequest:
        request = self.asks()
        assert isinstance(request, SyncGroupRequest)
        named = ConsumerAssignment(assigned_partitions=named_partitions(partitions))
        self.receives(SyncGroupResponse(assignment=write_assignment(named)))
        return request

    def take_rebalance(self) -> Rebalance:
        rebalance = self.member.rebalance
        assert rebalance is not None
        self.member.rebalance_done()
        return rebalance

    def settle(self, *partitions: TopicPartition) -> None:
        self.joins()
        self.syncs(*partitions)
        self.take_rebalance()

    def beats(self, error: ErrorCode = ErrorCode.NONE) -> None:
        self.now_ms += 1_000
        request = self.asks()
        assert isinstance(request, HeartbeatRequest)
        self.receives(HeartbeatResponse(error_code=error))


def owned_in(request: JoinGroupRequest) -> tuple[list[TopicPartition], int]:
    said = read_subscription(request.protocols[0].metadata)
    return partitions_of(said.owned_partitions), said.generation_id


def assigned_in(request: Message | None) -> dict[str, list[TopicPartition]]:
    assert isinstance(request, SyncGroupRequest)
    return {
        each.member_id: partitions_of(read_assignment(each.assignment).assigned_partitions)
        for each in request.assignments
    }


def test_nothing_is_sent_before_the_first_poll() -> None:
    member = ClassicMember(MemberSettings(group_id="g"), (RANGE,))
    member.subscribe(["t"])
    assert member.next_request(0) is None


def test_a_member_rejoins_with_the_assigned_member_id() -> None:
    """GR-2: MEMBER_ID_REQUIRED contains the member id."""
    group = Group()
    assert isinstance(group.asks(), JoinGroupRequest)
    group.receives(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me"))
    again = group.asks()
    assert isinstance(again, JoinGroupRequest)
    assert again.member_id == "me"


def test_one_request_is_in_flight_at_a_time() -> None:
    group = Group()
    assert group.asks() is not None
    assert group.asks() is None


def test_a_follower_syncs_without_assignments_and_gets_its_own() -> None:
    group = Group()
    group.joins()
    assert group.syncs(T0).assignments == ()
    assert group.take_rebalance() == Rebalance(AssignmentChange.ASSIGNED, (T0,))
    assert group.member.owned == (T0,)
    assert group.member.identity == Identity(1, "me", None)


def test_a_leader_assigns_existing_topics_to_all_members() -> None:
    group = Group()
    assert isinstance(group.asks(), JoinGroupRequest)
    metadata = write_subscription(Subscription(topics=("t", "not there")))
    group.receives(
        JoinGroupResponse(
            generation_id=1,
            protocol_name="range",
            leader="me",
            member_id="me",
            members=tuple(
                JoinGroupResponseMember(member_id=name, metadata=metadata)
                for name in ("me", "other")
            ),
        )
    )
    assert group.asks() is None
    assert group.member.topics_to_assign == frozenset({"t", "not there"})
    group.member.assign({"t": 2})
    assert assigned_in(group.asks()) == {"me": [T0], "other": [T1]}


def test_a_leader_assigns_partitions_by_rack() -> None:
    """KIP-881: subscriptions contain the members' racks."""
    group = Group()
    assert isinstance(group.asks(), JoinGroupRequest)
    subscriptions = {
        name: write_subscription(Subscription(topics=("t",), rack_id=rack))
        for name, rack in (("me", "r1"), ("other", "r0"))
    }
    group.receives(
        JoinGroupResponse(
            generation_id=1,
            protocol_name="range",
            leader="me",
            member_id="me",
            members=tuple(
                JoinGroupResponseMember(member_id=name, metadata=metadata)
                for name, metadata in subscriptions.items()
            ),
        )
    )
    group.member.assign({"t": 2}, {T0: frozenset({"r0"}), T1: frozenset({"r1"})})
    assert assigned_in(group.asks()) == {"me": [T1], "other": [T0]}


def test_a_leader_triggers_a_rebalance_when_partition_counts_change() -> None:
    group = Group()
    assert isinstance(group.asks(), JoinGroupRequest)
    me = JoinGroupResponseMember(
        member_id="me", metadata=write_subscription(Subscription(topics=("t",)))
    )
    group.receives(
        JoinGroupResponse(
            generation_id=1, protocol_name="range", leader="me", member_id="me", members=(me,)
        )
    )
    group.member.assign({})
    group.syncs()
    group.take_rebalance()
    group.member.partition_counts_seen({})
    assert group.asks() is None
    group.member.partition_counts_seen({"t": 3})
    assert isinstance(group.asks(), JoinGroupRequest)


def test_a_returning_static_leader_may_skip_the_assignment() -> None:
    """GR-14, KIP-814."""
    group = Group(instance="i")
    assert isinstance(group.asks(), JoinGroupRequest)
    group.receives(
        JoinGroupResponse(
            generation_id=1,
            protocol_name="range",
            leader="me",
            member_id="me",
            skip_assignment=True,
        )
    )
    assert group.member.topics_to_assign is None
    assert group.syncs(T0).assignments == ()


def test_an_eager_member_revokes_everything_before_it_rejoins() -> None:
    group = Group()
    group.settle(T0, T1)
    group.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert group.asks() is None
    assert group.take_rebalance() == Rebalance(AssignmentChange.REVOKED, (T0, T1))
    assert owned_in(group.joins(generation=2)) == ([], 1)


def test_heartbeats_continue_until_the_application_has_revoked() -> None:
    group = Group()
    group.settle(T0)
    group.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert group.asks() is None
    group.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert group.member.rebalance == Rebalance(AssignmentChange.REVOKED, (T0,))


def test_a_cooperative_member_revokes_only_lost_partitions() -> None:
    """KIP-429: after revoking it rejoins, so that others get the partitions."""
    group = Group(COOPERATIVE_STICKY)
    group.settle(T0, T1)
    group.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert owned_in(group.joins(generation=2)) == ([T0, T1], 1)
    group.syncs(T0)
    assert group.take_rebalance() == Rebalance(AssignmentChange.REVOKED, (T1,))
    assert group.take_rebalance() == Rebalance(AssignmentChange.ASSIGNED, ())
    assert group.member.owned == (T0,)
    assert owned_in(group.joins(generation=3)) == ([T0], 2)


def test_a_cooperative_member_first_revokes_unsubscribed_topics() -> None:
    group = Group(COOPERATIVE_STICKY)
    group.settle(T0)
    group.member.subscribe(["u"])
    assert group.asks() is None
    assert group.take_rebalance() == Rebalance(AssignmentChange.REVOKED, (T0,))
    assert isinstance(group.asks(), JoinGroupRequest)


def test_mixed_assignors_use_the_eager_protocol() -> None:
    group = Group(RANGE, COOPERATIVE_STICKY)
    group.settle(T0)
    group.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert group.asks() is None
    assert group.member.rebalance == Rebalance(AssignmentChange.REVOKED, (T0,))


def test_an_unknown_member_loses_everything_and_joins_without_an_id() -> None:
    group = Group(COOPERATIVE_STICKY)
    group.settle(T0)
    group.beats(ErrorCode.UNKNOWN_MEMBER_ID)
    assert group.asks() is None
    assert group.take_rebalance() == Rebalance(AssignmentChange.LOST, (T0,))
    request = group.joins()
    assert request.member_id == ""
    assert owned_in(request) == ([], -1)


def test_an_illegal_generation_loses_everything_but_the_member_id() -> None:
    group = Group()
    group.settle(T0)
    group.beats(ErrorCode.ILLEGAL_GENERATION)
    assert group.asks() is None
    assert group.take_rebalance() == Rebalance(AssignmentChange.LOST, (T0,))
    assert group.joins().member_id == "me"


def test_a_lost_membership_replaces_pending_revocations() -> None:
    group = Group()
    group.settle(T0)
    group.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert group.asks() is None
    group.beats(ErrorCode.UNKNOWN_MEMBER_ID)
    assert group.take_rebalance() == Rebalance(AssignmentChange.LOST, (T0,))
    assert group.member.rebalance is None


def test_a_member_leaves_after_max_poll_interval_and_rejoins_with_the_next_poll() -> None:
    group = Group()
    group.settle(T0)
    group.now_ms = 60_000
    request = group.asks()
    assert isinstance(request, LeaveGroupRequest)
    assert request.members[0].member_id == "me"
    assert group.member.stage is Stage.STALE
    assert group.asks() is None
    group.member.handle_error(NetworkException("gone"), group.now_ms)
    group.now_ms += 1_000
    assert group.asks() is None
    group.member.polled(group.now_ms)
    assert group.asks() is None
    assert group.take_rebalance() == Rebalance(AssignmentChange.LOST, (T0,))
    assert group.joins().member_id == ""


def test_a_static_member_sends_no_leave_request() -> None:
    group = Group(instance="i")
    group.settle(T0)
    assert group.member.leave() is None


def test_a_fenced_instance_id_is_fatal() -> None:
    group = Group(instance="i")
    group.settle(T0)
    group.beats(ErrorCode.FENCED_INSTANCE_ID)
    assert isinstance(group.member.failure, FencedInstanceId)
    group.member.clear_failure(group.now_ms)
    assert group.member.failure is not None
    assert group.asks() is None


def test_a_request_is_repeated_at_the_new_coordinator() -> None:
    group = Group()
    group.settle(T0)
    group.beats(ErrorCode.NOT_COORDINATOR)
    assert group.member.has_lost_coordinator
    assert group.asks() is None
    group.beats()
    assert group.member.owned == (T0,)
    assert group.member.rebalance is None


def test_a_join_without_a_response_is_repeated_after_the_backoff() -> None:
    group = Group()
    assert isinstance(group.asks(), JoinGroupRequest)
    group.member.handle_error(NetworkException("gone"), group.now_ms)
    assert group.asks() is None
    group.now_ms += 100
    assert isinstance(group.asks(), JoinGroupRequest)


def test_a_fatal_error_is_a_failure_until_it_was_raised() -> None:
    group = Group()
    assert isinstance(group.asks(), JoinGroupRequest)
    group.receives(JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert group.member.failure is not None
    assert group.asks() is None
    group.member.clear_failure(group.now_ms)
    group.now_ms += 100
    assert isinstance(group.asks(), JoinGroupRequest)


def test_a_member_without_a_request_wakes_up_later() -> None:
    """Otherwise the heartbeat loop would spin: without a request the next wake-up is later."""
    group = Group()
    assert group.member.wake_at_ms(0) > 0
    group.settle(T0)
    assert group.asks() is None
    assert group.member.wake_at_ms(group.now_ms) == group.now_ms + 1_000
    group.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert group.asks() is None
    assert group.member.wake_at_ms(group.now_ms) > group.now_ms
    group.beats(ErrorCode.UNKNOWN_MEMBER_ID)
    assert group.asks() is None
    group.now_ms += 100_000
    assert group.member.wake_at_ms(group.now_ms) > group.now_ms
    group.take_rebalance()
    assert isinstance(group.asks(), JoinGroupRequest)
    group.receives(JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    group.now_ms += 100_000
    assert group.asks() is None
    assert group.member.wake_at_ms(group.now_ms) > group.now_ms
