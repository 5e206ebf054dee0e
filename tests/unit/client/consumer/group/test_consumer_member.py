"""The state machine of a consumer group member (KIP-848)."""

from headwater.client.consumer.group.consumer_member import ConsumerMember
from headwater.client.consumer.group.member import AssignmentChange, MemberSettings, Rebalance
from headwater.client.errors import NetworkException
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headwater.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

T, U = TopicId(b"t" * 16), TopicId(b"u" * 16)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Group:
    """One member and a scripted coordinator."""

    def __init__(self, instance: str | None = None) -> None:
        settings = MemberSettings(
            group_id="g",
            group_instance_id=instance,
            max_poll_interval_ms=60_000,
            retry_backoff_ms=100,
        )
        self.member = ConsumerMember(settings, "me")
        self.now_ms = 0
        self.member.names_seen({T: "t"})
        self.member.subscribe(["t"])
        self.member.polled(0)

    def asks(self) -> ConsumerGroupHeartbeatRequest | None:
        ask = self.member.next_request(self.now_ms)
        if ask is None:
            return None
        assert isinstance(ask.request, ConsumerGroupHeartbeatRequest)
        return ask.request

    def must_ask(self) -> ConsumerGroupHeartbeatRequest:
        request = self.asks()
        assert request is not None
        return request

    def receives(
        self,
        epoch: int = 1,
        *partitions: int,
        topic: TopicId = T,
        is_news: bool = True,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        named = TopicPartitions(topic_id=topic, partitions=partitions)
        self.member.handle_response(
            ConsumerGroupHeartbeatResponse(
                error_code=error,
                member_id="me",
                member_epoch=epoch,
                heartbeat_interval_ms=5_000,
                assignment=Assignment(topic_partitions=(named,)) if is_news else None,
            ),
            self.now_ms,
        )

    def take_rebalance(self) -> Rebalance:
        rebalance = self.member.rebalance
        assert rebalance is not None
        self.member.rebalance_done()
        return rebalance

    def settle(self, *partitions: int) -> None:
        self.must_ask()
        self.receives(1, *partitions)
        self.take_rebalance()
        self.must_ask()
        self.receives(1, is_news=False)


def test_the_first_heartbeat_has_all_fields_and_owns_nothing() -> None:
    """NG-1."""
    request = Group().must_ask()
    assert request.member_epoch == 0
    assert request.member_id == "me"
    assert request.rebalance_timeout_ms == 60_000
    assert request.subscribed_topic_names == ("t",)
    assert request.topic_partitions == ()


def test_owned_partitions_are_reported_at_once_without_other_fields() -> None:
    group = Group()
    group.must_ask()
    group.receives(3, 0, 1)
    assert group.asks() is None
    assert group.take_rebalance() == Rebalance(AssignmentChange.ASSIGNED, (T0, T1))
    told = group.must_ask()
    assert told.member_epoch == 3
    assert told.topic_partitions == (TopicPartitions(topic_id=T, partitions=(0, 1)),)
    assert told.subscribed_topic_names is None
    group.receives(3, is_news=False)
    assert group.asks() is None
    group.now_ms += 5_000
    assert group.must_ask().topic_partitions is None


def test_partitions_are_revoked_before_others_are_assigned() -> None:
    """NG-3."""
    group = Group()
    group.settle(0)
    group.now_ms += 5_000
    group.must_ask()
    group.receives(2, 1)
    assert group.take_rebalance() == Rebalance(AssignmentChange.REVOKED, (T0,))
    assert group.must_ask().topic_partitions == ()
    group.receives(2, is_news=False)
    assert group.take_rebalance() == Rebalance(AssignmentChange.ASSIGNED, (T1,))
    assert group.member.owned == (T1,)


def test_heartbeats_continue_until_the_application_has_revoked() -> None:
    group = Group()
    group.settle(0)
    group.now_ms += 5_000
    group.must_ask()
    group.receives(2)
    group.now_ms += 5_000
    assert group.must_ask().topic_partitions is None


def test_a_newer_target_assignment_follows_the_current_reconciliation() -> None:
    group = Group()
    group.settle(0)
    group.now_ms += 5_000
    group.must_ask()
    group.receives(2)
    group.now_ms += 5_000
    group.must_ask()
    group.receives(2, 0, 1)
    assert group.take_rebalance() == Rebalance(AssignmentChange.REVOKED, (T0,))
    assert group.take_rebalance() == Rebalance(AssignmentChange.ASSIGNED, ())
    assert group.take_rebalance() == Rebalance(AssignmentChange.ASSIGNED, (T0, T1))


def test_an_unknown_topic_name_delays_the_assignment_but_not_heartbeats() -> None:
    group = Group()
    group.must_ask()
    group.receives(1, 0, topic=U)
    assert group.member.rebalance is None
    assert group.member.unknown_topic_ids == {U}
    group.now_ms += 5_000
    assert group.must_ask().topic_partitions is None
    group.member.names_seen({U: "u"})
    assert group.take_rebalance() == Rebalance(AssignmentChange.ASSIGNED, (TopicPartition("u", 0),))


def test_a_fenced_member_loses_everything_and_rejoins_with_the_same_id() -> None:
    """NG-4."""
    group = Group()
    group.settle(0)
    group.now_ms += 5_000
    group.must_ask()
    group.receives(error=ErrorCode.FENCED_MEMBER_EPOCH)
    assert group.asks() is None
    assert group.take_rebalance() == Rebalance(AssignmentChange.LOST, (T0,))
    request = group.must_ask()
    assert (request.member_id, request.member_epoch) == ("me", 0)
    assert request.topic_partitions == ()


def test_after_a_lost_heartbeat_all_fields_are_sent_again() -> None:
    group = Group()
    group.settle(0)
    group.now_ms += 5_000
    group.must_ask()
    group.member.handle_error(NetworkException("gone"), group.now_ms)
    assert group.member.has_lost_coordinator
    assert group.asks() is None
    group.now_ms += 100
    request = group.must_ask()
    assert request.member_epoch == 1
    assert request.subscribed_topic_names == ("t",)
    assert request.topic_partitions == (TopicPartitions(topic_id=T, partitions=(0,)),)


def test_a_new_subscription_is_sent_at_once() -> None:
    group = Group()
    group.settle(0)
    group.member.subscribe(["t", "u"])
    assert group.must_ask().subscribed_topic_names == ("t", "u")


def test_a_pattern_is_sent_to_the_broker_and_removed_with_an_empty_one() -> None:
    group = Group()
    group.member.subscribe([], "t.*")
    assert group.must_ask().subscribed_topic_regex == "t.*"
    group.receives(1)
    group.member.subscribe(["t"])
    request = group.must_ask()
    assert request.subscribed_topic_regex == ""
    assert request.subscribed_topic_names == ("t",)
    group.receives(1, is_news=False)
    assert group.asks() is None


def test_leaving_is_a_heartbeat_and_temporary_for_a_static_member() -> None:
    """NG-7."""
    for instance, epoch in ((None, -1), ("i", -2)):
        group = Group(instance)
        group.settle(0)
        ask = group.member.leave()
        assert ask is not None
        assert isinstance(ask.request, ConsumerGroupHeartbeatRequest)
        assert ask.request.member_epoch == epoch


def test_a_member_leaves_after_max_poll_interval_and_rejoins_with_the_next_poll() -> None:
    group = Group()
    group.settle(0)
    group.now_ms = 60_000
    assert group.must_ask().member_epoch == -1
    group.receives(-1, is_news=False)
    assert group.asks() is None
    group.member.polled(group.now_ms)
    assert group.take_rebalance() == Rebalance(AssignmentChange.LOST, (T0,))
    assert group.must_ask().member_epoch == 0


def test_an_invalid_pattern_is_a_failure_that_names_the_group() -> None:
    group = Group()
    group.must_ask()
    group.receives(error=ErrorCode.INVALID_REGULAR_EXPRESSION)
    assert group.member.failure is not None
    assert "group g" in str(group.member.failure)


def test_a_member_without_a_request_wakes_up_later() -> None:
    """Otherwise the heartbeat loop would spin: without a request the next wake-up is later."""
    group = Group()
    group.settle(0)
    assert group.asks() is None
    assert group.member.wake_at_ms(group.now_ms) == group.now_ms + 5_000
    group.now_ms += 5_000
    group.must_ask()
    group.receives(error=ErrorCode.FENCED_MEMBER_EPOCH)
    assert group.asks() is None
    assert group.member.wake_at_ms(group.now_ms) > group.now_ms
    group.take_rebalance()
    group.must_ask()
    group.receives(error=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    group.now_ms += 100_000
    assert group.asks() is None
    assert group.member.wake_at_ms(group.now_ms) > group.now_ms


def test_a_topic_that_was_briefly_missing_keeps_its_id() -> None:
    """Reported without an id, its partitions would count as revoked."""
    group = Group()
    group.settle(0)
    group.member.names_seen({NO_TOPIC_ID: "t"})
    assert group.asks() is None
    group.now_ms += 5_000
    assert group.must_ask().topic_partitions is None
