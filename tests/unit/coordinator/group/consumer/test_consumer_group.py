"""ConsumerGroupHeartbeat, NG-1 to NG-6."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.assignors.assignor_spec import Partitions
from headwater.coordinator.group.consumer import consumer_group_record_values as record_values
from headwater.coordinator.group.consumer.consumer_group_member import (
    ConsumerGroupMember,
    MemberState,
)
from headwater.coordinator.group.consumer.consumer_group_settings import ConsumerGroupSettings
from headwater.coordinator.group.consumer.subscribed_topics import hash_of_topics
from headwater.coordinator.group.group import GROUP_TIMER
from headwater.coordinator.runtime.coordinator_effects import (
    Append,
    Caller,
    Reply,
    SetTimer,
    TimerFired,
)
from headwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.simulation.labs.consumer_group_lab import GROUP, GroupLab
from tests.simulation.labs.consumer_group_requests import beat, joining, of, told


def test_the_first_member_gets_all_partitions_in_one_batch_of_records() -> None:
    """NG-1, NG-2, NG-5: joining creates epoch 1, a target and an assignment."""
    lab = GroupLab()
    clicks = lab.create_topic("clicks", 2)
    effects = lab.decide(joining("a", "clicks"))
    target: Partitions = record_values.partitions_of(of(clicks, 0, 1))
    member = ConsumerGroupMember(
        member_id="a",
        client_id="tester",
        client_host="/127.0.0.1",
        subscribed_topic_names=("clicks",),
        rebalance_timeout_ms=60_000,
        member_epoch=1,
        previous_member_epoch=0,
        state=MemberState.STABLE,
        assigned=target,
    )
    assert effects == [
        Append(
            (
                record_values.member_metadata(GROUP, member),
                record_values.group_epoch(GROUP, 1, hash_of_topics(["clicks"], lab.image)),
                record_values.target_assignment(GROUP, "a", target),
                record_values.target_epoch(GROUP, 1),
                record_values.current_assignment(GROUP, member),
            )
        ),
        SetTimer((GROUP_TIMER, GROUP, "session", "a"), lab.now_ms + 45_000),
        Reply(Caller(1), told(1, of(clicks, 0, 1))),
    ]


def test_a_heartbeat_without_changes_writes_nothing_and_returns_no_assignment() -> None:
    """NG-5."""
    lab = GroupLab()
    lab.create_topic("clicks", 2)
    lab.heartbeat(joining("a", "clicks"))
    effects = lab.decide(beat("a", 1))
    assert effects == [
        SetTimer((GROUP_TIMER, GROUP, "session", "a"), lab.now_ms + 45_000),
        Reply(Caller(2), told(1, None)),
    ]


def test_a_full_heartbeat_gets_its_assignment_again() -> None:
    """NG-5: a member in doubt sends everything and gets everything."""
    lab = GroupLab()
    clicks = lab.create_topic("clicks", 1)
    lab.heartbeat(joining("a", "clicks"))
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="a",
        member_epoch=1,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("clicks",),
        topic_partitions=(),
    )
    assert lab.heartbeat(request) == told(1, of(clicks, 0))


def test_a_new_member_waits_until_the_other_has_revoked() -> None:
    """NG-3, from both sides."""
    lab = GroupLab()
    clicks = lab.create_topic("clicks", 2)
    lab.heartbeat(joining("a", "clicks"))
    assert lab.heartbeat(joining("b", "clicks")) == told(2, (), "b")
    assert lab.heartbeat(beat("a", 1)) == told(1, of(clicks, 0))
    assert lab.heartbeat(beat("b", 2)) == told(2, None, "b")
    assert lab.heartbeat(beat("a", 1, of(clicks, 0, 1))) == told(1, None)
    assert lab.heartbeat(beat("a", 1, of(clicks, 0))) == told(2, None)
    assert lab.heartbeat(beat("b", 2)) == told(2, of(clicks, 1), "b")
    assert lab.group.state_name == "Stable"


def test_the_state_names_are_kafkas() -> None:
    lab = GroupLab()
    lab.create_topic("clicks", 2)
    lab.heartbeat(joining("a", "clicks"))
    assert lab.group.state_name == "Stable"
    lab.heartbeat(joining("b", "clicks"))
    assert lab.group.state_name == "Reconciling"
    lab.heartbeat(beat("b", -1))
    assert lab.group.state_name == "Assigning"
    lab.heartbeat(beat("a", -1))
    assert lab.group.state_name == "Empty"


@pytest.mark.parametrize("epoch", [0, 1, 3, 7])
def test_a_member_with_another_epoch_is_fenced(epoch: int) -> None:
    """NG-4. As in Kafka 4.1, a join with a known member id is fenced too."""
    lab = GroupLab()
    lab.create_topic("clicks", 1)
    lab.heartbeat(joining("a", "clicks"))
    lab.heartbeat(beat("a", 1, names=("clicks", "views")))
    request = joining("a", "clicks") if epoch == 0 else beat("a", epoch)
    assert lab.heartbeat(request).error_code is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_that_missed_a_response_may_send_its_previous_epoch() -> None:
    """NG-4: if it owns only assigned partitions."""
    lab = GroupLab()
    clicks = lab.create_topic("clicks", 1)
    lab.heartbeat(joining("a", "clicks"))
    lab.heartbeat(beat("a", 1, names=("clicks", "views")))
    assert lab.heartbeat(beat("a", 1, of(clicks, 0))) == told(2, None)
    owns_too_much = beat("a", 1, of(clicks, 0, 1))
    assert lab.heartbeat(owns_too_much).error_code is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_join_whose_response_was_lost_may_be_repeated() -> None:
    """NG-4."""
    lab = GroupLab()
    clicks = lab.create_topic("clicks", 1)
    first = lab.heartbeat(joining("a", "clicks"))
    assert first == told(1, of(clicks, 0))
    assert lab.heartbeat(joining("a", "clicks")) == first


def test_unknown_members_and_unknown_groups_are_rejected() -> None:
    """NG-4."""
    lab = GroupLab()
    lab.create_topic("clicks", 1)
    assert lab.heartbeat(beat("a", 1)).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert lab.heartbeat(beat("a", -1)).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    lab.heartbeat(joining("a", "clicks"))
    assert lab.heartbeat(beat("b", 1)).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert lab.heartbeat(beat("b", -1)).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_releases_its_partitions() -> None:
    """NG-2: the group epoch grows; the target is computed with the next heartbeat."""
    lab = GroupLab()
    clicks = lab.create_topic("clicks", 2)
    lab.heartbeat(joining("a", "clicks"))
    lab.heartbeat(joining("b", "clicks"))
    lab.heartbeat(beat("a", 1))
    lab.heartbeat(beat("a", 1, of(clicks, 0)))
    lab.heartbeat(beat("b", 2))
    assert lab.heartbeat(beat("b", -1)) == ConsumerGroupHeartbeatResponse(
        member_id="b", member_epoch=-1
    )
    assert lab.heartbeat(beat("a", 2)) == told(3, of(clicks, 0, 1))


def test_a_new_or_larger_topic_is_assigned_with_the_next_heartbeat() -> None:
    """NG-2."""
    lab = GroupLab()
    assert lab.heartbeat(joining("a", "clicks")) == told(1, ())
    clicks = lab.create_topic("clicks", 1)
    assert lab.heartbeat(beat("a", 1)) == told(2, of(clicks, 0))
    lab.grow_topic("clicks", 2)
    assert lab.heartbeat(beat("a", 2)) == told(3, of(clicks, 0, 1, 2))
    lab.create_topic("unrelated", 5)
    assert lab.heartbeat(beat("a", 3)) == told(3, None)


def test_a_deleted_topic_is_revoked() -> None:
    """NG-2, NG-3."""
    lab = GroupLab()
    lab.create_topic("clicks", 1)
    lab.heartbeat(joining("a", "clicks"))
    lab.delete_topic("clicks")
    assert lab.heartbeat(beat("a", 1)) == told(1, ())
    assert lab.heartbeat(beat("a", 1, ())) == told(2, None)


def test_a_topic_change_is_detected_again_if_its_records_could_not_be_written() -> None:
    lab = GroupLab()
    clicks = lab.create_topic("clicks", 1)
    lab.heartbeat(joining("a", "clicks"))
    lab.grow_topic("clicks", 1)
    lab.loses_appends = True
    assert lab.carry_out(lab.decide(beat("a", 1))) == []
    lab.loses_appends = False
    assert lab.heartbeat(beat("a", 1)) == told(2, of(clicks, 0, 1))


def test_a_member_without_heartbeats_is_removed_after_the_session_timeout() -> None:
    """NG-6."""
    lab = GroupLab()
    lab.create_topic("clicks", 1)
    lab.heartbeat(joining("a", "clicks"))
    lab.pass_time(44_999)
    assert "a" in lab.group.state.members
    lab.heartbeat(beat("a", 1))
    lab.pass_time(44_999)
    assert "a" in lab.group.state.members
    lab.pass_time(1)
    assert lab.group.is_empty
    assert lab.group.state.owners == {}


def test_setting_the_clock_back_extends_no_session() -> None:
    """NG-6: timers use another clock; one that fires limits the wait again."""
    lab = GroupLab()
    lab.create_topic("clicks", 1)
    lab.heartbeat(joining("a", "clicks"))
    lab.now_ms -= 3_600_000
    fired = TimerFired((GROUP_TIMER, GROUP, "session", "a"), lab.now_ms)
    lab.carry_out(lab.group.on_timer(fired))
    lab.pass_time(44_999)
    assert "a" in lab.group.state.members
    lab.pass_time(1)
    assert lab.group.is_empty


def test_setting_the_clock_back_does_not_extend_a_revocation() -> None:
    """NG-6."""
    lab = GroupLab()
    clicks = lab.create_topic("clicks", 2)
    lab.heartbeat(joining("a", "clicks"))
    lab.heartbeat(joining("b", "clicks"))
    lab.heartbeat(beat("a", 1))
    lab.now_ms -= 3_600_000
    fired = TimerFired((GROUP_TIMER, GROUP, "revocation", "a"), lab.now_ms)
    lab.carry_out(lab.group.on_timer(fired))
    for _ in range(3):
        lab.heartbeat(beat("a", 1, of(clicks, 0, 1)))
        lab.heartbeat(beat("b", 2))
        lab.pass_time(20_000)
    assert sorted(lab.group.state.members) == ["b"]


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    """NG-6: heartbeats alone do not help it."""
    lab = GroupLab()
    clicks = lab.create_topic("clicks", 2)
    lab.heartbeat(joining("a", "clicks"))
    lab.heartbeat(joining("b", "clicks"))
    lab.heartbeat(beat("a", 1))
    for _ in range(3):
        lab.pass_time(20_000)
        lab.heartbeat(beat("a", 1, of(clicks, 0, 1)))
        lab.heartbeat(beat("b", 2))
    assert sorted(lab.group.state.members) == ["b"]
    assert lab.heartbeat(beat("a", 1)).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_removal_that_could_not_be_written_is_retried() -> None:
    """NG-6."""
    lab = GroupLab()
    lab.create_topic("clicks", 1)
    lab.heartbeat(joining("a", "clicks"))
    lab.loses_appends = True
    lab.pass_time(45_000)
    assert "a" in lab.group.state.members
    lab.loses_appends = False
    lab.pass_time(5_000)
    assert lab.group.is_empty


def test_after_a_restart_members_continue_with_new_timers() -> None:
    lab = GroupLab()
    clicks = lab.create_topic("clicks", 2)
    lab.heartbeat(joining("a", "clicks"))
    lab.heartbeat(joining("b", "clicks"))
    lab.heartbeat(beat("a", 1))
    before = lab.group.state
    lab.pass_time(40_000)
    lab.restart()
    assert lab.group.state == before
    lab.pass_time(40_000)
    assert lab.heartbeat(beat("a", 1, of(clicks, 0))) == told(2, None)
    assert lab.heartbeat(beat("b", 2)) == told(2, of(clicks, 1), "b")


def test_a_full_group_accepts_no_other_member() -> None:
    lab = GroupLab(ConsumerGroupSettings(max_size=1))
    lab.create_topic("clicks", 1)
    lab.heartbeat(joining("a", "clicks"))
    refused = lab.heartbeat(joining("b", "clicks"))
    assert refused.error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert lab.heartbeat(joining("a", "clicks")).error_code is ErrorCode.NONE


def test_the_assignor_that_most_members_request_is_used() -> None:
    """NG-2."""
    lab = GroupLab()
    clicks = lab.create_topic("clicks", 4)
    lab.heartbeat(joining("a", "clicks", assignor="range"))
    lab.heartbeat(joining("b", "clicks", assignor="range"))
    lab.heartbeat(joining("c", "clicks", assignor="uniform"))
    assert lab.group.assignor_name == "range"
    assert lab.group.state.target_of("a") == record_values.partitions_of(of(clicks, 0, 1))


def test_before_version_1_the_coordinator_creates_the_member_id() -> None:
    """NG-1."""
    lab = GroupLab()
    lab.create_topic("clicks", 1)
    request = joining("", "clicks")
    assert lab.heartbeat(request, 1).error_code is ErrorCode.INVALID_REQUEST
    member_id = lab.heartbeat(request, 0).member_id
    assert member_id is not None
    assert len(member_id) == 22
    assert list(lab.group.state.members) == [member_id]


@pytest.mark.parametrize(
    "request_",
    [
        ConsumerGroupHeartbeatRequest(group_id=" ", member_id="a", member_epoch=1),
        ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="", member_epoch=1),
        ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=-3),
        ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=-2),
        ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="a", rack_id="", member_epoch=1),
        joining("a", "clicks", instance_id=""),
        ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id="a", subscribed_topic_names=("t",), topic_partitions=()
        ),
        ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id="a", subscribed_topic_names=("t",), rebalance_timeout_ms=1
        ),
        ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id="a", rebalance_timeout_ms=1, topic_partitions=()
        ),
    ],
)
def test_an_invalid_heartbeat_is_rejected(request_: ConsumerGroupHeartbeatRequest) -> None:
    """NG-1."""
    assert GroupLab().heartbeat(request_).error_code is ErrorCode.INVALID_REQUEST


def test_an_unknown_assignor_is_rejected() -> None:
    """NG-9."""
    response = GroupLab().heartbeat(joining("a", "clicks", assignor="guess"))
    assert response.error_code is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_a_member_without_subscription_joins_and_the_epoch_stays() -> None:
    """Kafka does the same (4.1)."""
    lab = GroupLab()
    lab.create_topic("clicks", 1)
    lab.heartbeat(joining("a", "clicks"))
    assert lab.heartbeat(joining("b")) == told(1, (), "b")


def test_a_group_exists_from_its_first_member_on_whatever_its_subscription() -> None:
    lab = GroupLab()
    assert lab.heartbeat(joining("a")) == told(1, ())
    assert lab.heartbeat(beat("a", 1)) == told(1, None)


def test_after_a_restart_a_member_must_still_revoke_in_time() -> None:
    """NG-6."""
    lab = GroupLab()
    clicks = lab.create_topic("clicks", 2)
    lab.heartbeat(joining("a", "clicks"))
    lab.heartbeat(joining("b", "clicks"))
    lab.heartbeat(beat("a", 1))
    lab.restart()
    for _ in range(3):
        lab.pass_time(20_000)
        lab.heartbeat(beat("a", 1, of(clicks, 0, 1)))
        lab.heartbeat(beat("b", 2))
    assert sorted(lab.group.state.members) == ["b"]


def test_an_unknown_group_config_is_ignored() -> None:
    """A later version may have set it."""
    own = {"consumer.session.timeout.ms": "50000", "consumer.patience": "endless"}
    settings = ConsumerGroupSettings().of_group(own)
    assert settings == ConsumerGroupSettings(session_timeout_ms=50_000)
