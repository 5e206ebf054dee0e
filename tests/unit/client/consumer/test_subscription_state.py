"""Positions and stale responses, reset strategies and subscription patterns."""

import re
from typing import Any

import pytest

from headwater.client.consumer.auto_offset_reset import AutoOffsetReset, parse_offset_reset
from headwater.client.consumer.consumer_settings import ConsumerSettings
from headwater.client.consumer.subscription import subscription_to
from headwater.client.consumer.subscription_state import FetchState, SubscriptionState
from headwater.client.errors import IllegalState, InvalidArgument, InvalidTopic
from headwater.client.network.cluster_metadata import ClusterMetadata, TopicView
from headwater.client.settings import read_settings
from headwater.common.exceptions import InvalidSetting
from headwater.common.ids import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def assigned(*partitions: TopicPartition) -> SubscriptionState:
    state = SubscriptionState(has_group=True)
    state.assign(partitions)
    return state


def test_without_a_group_no_committed_offset_is_requested() -> None:
    state = SubscriptionState(has_group=False)
    state.assign([T0])
    assert state[T0].phase is FetchState.NEEDS_RESET
    assert assigned(T0)[T0].phase is FetchState.NEEDS_COMMITTED


def test_partitions_that_stay_assigned_keep_position_and_pause() -> None:
    state = assigned(T0)
    state.seek(T0, 7)
    state[T0].is_paused = True
    state.assign([T0, T1])
    assert (state[T0].position, state[T0].is_paused) == (7, True)
    assert state[T1].phase is FetchState.NEEDS_COMMITTED


def test_a_response_from_before_a_seek_is_stale() -> None:
    state = assigned(T0)
    token = state[T0].token
    state.seek(T0, 7)
    assert state.state_for(T0, token) is None
    assert state.state_for(T0, state[T0].token) is state[T0]


def test_a_reassigned_partition_has_a_new_token() -> None:
    state = assigned(T0)
    token = state[T0].token
    state.assign([])
    state.assign([T0])
    assert state.state_for(T0, token) is None


def test_an_unassigned_partition_has_no_position() -> None:
    with pytest.raises(IllegalState):
        assigned(T0).seek(T1, 0)


def test_a_new_leader_epoch_requires_validation_of_the_position() -> None:
    """EP-12, KIP-320."""
    state = assigned(T0)
    state.seek(T0, 7)
    state.leader_epoch_seen(state[T0], 3)
    assert state[T0].phase is FetchState.FETCHING
    state[T0].fetch_epoch = 3
    state.leader_epoch_seen(state[T0], 3)
    assert state[T0].phase is FetchState.FETCHING
    state.leader_epoch_seen(state[T0], 4)
    assert state[T0].phase is FetchState.NEEDS_VALIDATION
    state.validated(state[T0], 4)
    state.leader_epoch_seen(state[T0], 4)
    assert state[T0].phase is FetchState.FETCHING


@pytest.mark.parametrize(
    ("position", "end_offset", "is_enough"), [(100, 150, True), (150, 150, True), (151, 150, False)]
)
def test_a_truncation_of_buffered_records_does_not_affect_the_position(
    position: int, end_offset: int, is_enough: bool
) -> None:
    """It continues after its position, without skipping records that still exist."""
    state = assigned(T0)
    state.seek(T0, 90)
    one = state[T0]
    state.consumed(one, position, 3)
    one.fetch_offset, one.fetch_epoch = 200, 3
    assert state.drop_buffered(T0, end_offset, 3) is is_enough
    if is_enough:
        assert (one.position, one.fetch_offset, one.fetch_epoch) == (position, position, 3)


def test_a_committed_offset_with_an_epoch_is_validated_first() -> None:
    state = assigned(T0)
    state.seek(T0, 7, 2)
    assert state[T0].phase is FetchState.NEEDS_VALIDATION
    assert not state[T0].may_fetch(0)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("earliest", AutoOffsetReset("earliest")),
        ("none", AutoOffsetReset("none")),
        ("by_duration:PT6H", AutoOffsetReset("by_duration", 6 * 3_600_000)),
        ("by_duration:P1DT2M0.5S", AutoOffsetReset("by_duration", 86_520_500)),
    ],
)
def test_reset_strategies_are_parsed(text: str, rule: AutoOffsetReset) -> None:
    assert parse_offset_reset(text) == rule


@pytest.mark.parametrize("text", ["smallest", "by_duration:", "by_duration:P", "by_duration:PT"])
def test_unknown_reset_strategies_are_rejected(text: str) -> None:
    with pytest.raises(InvalidSetting, match=r"auto\.offset\.reset must"):
        read_settings(ConsumerSettings, {"bootstrap.servers": "a:1", "auto.offset.reset": text}, {})


def test_by_duration_counts_back_from_now() -> None:
    assert AutoOffsetReset("by_duration", 100).timestamp(1_000) == 900
    assert AutoOffsetReset.LATEST.timestamp(1_000) == -1
    assert AutoOffsetReset.EARLIEST.timestamp(1_000) == -2


def settings(**keywords: object) -> ConsumerSettings:
    chosen = read_settings(ConsumerSettings, None, {"bootstrap_servers": "a:1", **keywords})
    chosen.check()
    return chosen


def test_assignors_are_named_as_in_kafka_or_by_java_class() -> None:
    java = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    chosen = settings(partition_assignment_strategy=["roundrobin", java])
    assert [each.name for each in chosen.assignors()] == ["roundrobin", "cooperative-sticky"]
    assert [each.name for each in settings().assignors()] == ["range", "cooperative-sticky"]
    with pytest.raises(InvalidSetting, match="choose from range"):
        settings(partition_assignment_strategy="fair")


def test_the_heartbeat_interval_must_be_below_the_session_timeout() -> None:
    with pytest.raises(InvalidSetting):
        settings(session_timeout_ms=1_000, heartbeat_interval_ms=1_000)


def topics(*names: str) -> ClusterMetadata:
    views = {name: TopicView(name=name, is_internal=name.startswith("__")) for name in names}
    return ClusterMetadata(topics=views)


def test_a_pattern_given_as_text_must_match_the_whole_name() -> None:
    wanted = subscription_to(None, "tea|cof.*", broker_matches=False, listener=None)
    known = topics("tea", "teapot", "coffee", "__consumer_offsets")
    assert wanted.wanted_topics(known, excludes_internal=True) == ["coffee", "tea"]


def test_a_compiled_pattern_searches_and_skips_internal_topics_by_default() -> None:
    wanted = subscription_to(None, re.compile("e"), broker_matches=True, listener=None)
    known = topics("tea", "__consumer_offsets")
    assert wanted.wanted_topics(known, excludes_internal=True) == ["tea"]
    assert wanted.wanted_topics(known, excludes_internal=False) == ["__consumer_offsets", "tea"]


def test_with_the_consumer_protocol_the_broker_matches_a_text_pattern() -> None:
    wanted = subscription_to(None, "t.*", broker_matches=True, listener=None)
    assert (wanted.server_pattern, wanted.pattern) == ("t.*", None)


def test_a_string_is_not_a_list_of_topics() -> None:
    with pytest.raises(InvalidArgument, match="topics must be a list, not 'tea'"):
        subscription_to("tea", None, broker_matches=False, listener=None)


@pytest.mark.parametrize("name", [b"tea", None, 5, "", "green tea"])
def test_an_invalid_topic_name_cannot_be_subscribed_to(name: Any) -> None:
    with pytest.raises(InvalidTopic):
        subscription_to(["coffee", name], None, broker_matches=False, listener=None)
