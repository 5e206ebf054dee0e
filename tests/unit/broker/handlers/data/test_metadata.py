"""Metadata: brokers and topics."""

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headwater.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.simulation.labs.broker_lab import CLUSTER_ID, BrokerLab


def ask(
    lab: BrokerLab, *topics: MetadataRequestTopic, version: int = 13, create: bool = False
) -> MetadataResponse:
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=create)
    return lab.ask(request, MetadataResponse, version)


def named(name: str | None) -> MetadataRequestTopic:
    return MetadataRequestTopic(name=name)


def by_id(topic_id: TopicId) -> MetadataRequestTopic:
    return MetadataRequestTopic(name=None, topic_id=topic_id)


def test_response_about_all_topics_follows_every_change() -> None:
    """TO-7: it is cached in encoded form while nothing changes."""
    lab = BrokerLab()
    everything = MetadataRequest(topics=None)
    assert lab.ask(everything, MetadataResponse).topics == ()
    lab.create("t", 2)
    for _ in range(2):
        response = lab.ask(everything, MetadataResponse)
        assert [(each.name, len(each.partitions)) for each in response.topics] == [("t", 2)]
        assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 0)
        assert [(each.host, each.port) for each in response.brokers] == [("broker.test", 9092)]
    assert ask(lab).topics == ()


def test_topic_is_auto_created_where_that_is_enabled() -> None:
    """TO-6: it is in the first response."""
    lab = BrokerLab({"num.partitions": "3"})
    (result,) = ask(lab, named("new"), create=False).topics
    assert result.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (result,) = ask(lab, named("new"), create=True).topics
    assert (result.error_code, len(result.partitions)) == (ErrorCode.NONE, 3)
    lab = BrokerLab({"auto.create.topics.enable": "false"})
    (result,) = ask(lab, named("new"), create=True).topics
    assert result.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_deleted_topic_is_unknown_at_first_when_it_is_auto_created_again() -> None:
    """As in Kafka, so that clients notice the deletion; a new topic is there at once."""
    lab = BrokerLab()
    lab.create("t")
    delete = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=1_000)
    lab.ask(delete, DeleteTopicsResponse)
    found = ask(lab, named("t"), named("new"), create=True).topics
    assert [each.error_code for each in found] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    for create in (False, True):
        found = ask(lab, named("t"), named("new"), create=create).topics
        assert [each.error_code for each in found] == [ErrorCode.NONE] * 2


def test_second_deletion_is_noticed_too_when_the_topic_is_auto_created_again() -> None:
    lab = BrokerLab()
    for _ in range(2):
        lab.create("t")
        (found,) = ask(lab, named("t"), create=True).topics
        assert found.error_code is ErrorCode.NONE
        lab.ask(
            DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=1_000),
            DeleteTopicsResponse,
        )
    (found,) = ask(lab, named("t"), create=True).topics
    assert found.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["", ".", "a b", "x" * 250])
def test_invalid_topic_name_is_rejected(name: str) -> None:
    """TO-1."""
    lab = BrokerLab()
    for create in (False, True):
        assert ask(lab, named(name), create=create).topics == (
            MetadataResponseTopic(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, name=name),
        )
    assert not lab.broker.image.topics


def test_topics_are_found_by_id() -> None:
    lab = BrokerLab()
    lab.create("t")
    unknown_id = TopicId(b"x" * 16)
    known = lab.broker.image.topics["t"].topic_id
    found, unknown = ask(lab, by_id(known), by_id(unknown_id), named("t")).topics
    assert (found.name, found.error_code) == ("t", ErrorCode.NONE)
    assert unknown == MetadataResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=unknown_id
    )


@pytest.mark.parametrize(
    ("topic", "version"),
    [
        (MetadataRequestTopic(name="", topic_id=TopicId(b"x" * 16)), 11),
        (MetadataRequestTopic(name=None, topic_id=NO_TOPIC_ID), 12),
    ],
)
def test_topic_id_or_null_name_in_an_old_version_is_rejected(
    topic: MetadataRequestTopic, version: int
) -> None:
    """Kafka 4.1 rejects an id before version 12 too; without a name it fails unexpectedly."""
    response = ask(BrokerLab(), topic, version=version)
    assert (response.brokers, response.cluster_id, response.controller_id) == ((), None, -1)
    assert [each.error_code for each in response.topics] == [ErrorCode.INVALID_REQUEST]


def test_repeated_topic_is_answered_once() -> None:
    lab = BrokerLab()
    lab.create("t")
    assert len(ask(lab, named("t"), named("t")).topics) == 1


def test_authorized_operations_are_returned_on_request() -> None:
    lab = BrokerLab()
    lab.create("t")
    request = MetadataRequest(
        topics=(named("t"),),
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    response = lab.ask(request, MetadataResponse, 8)
    assert response.topics[0].topic_authorized_operations == 3_576
    assert response.cluster_authorized_operations == 8_096
    response = lab.ask(MetadataRequest(topics=None), MetadataResponse, 8)
    assert response.topics[0].topic_authorized_operations == -(2**31)
