"""Large requests are answered in slices, with the same response as in one piece."""

from collections.abc import Iterator
from typing import Any

import pytest

from bench.hostile_requests import LARGE_REQUESTS, MakeRequest
from headwater.broker.requests import request_handler, request_slices
from headwater.broker.requests.request_slices import SLICED
from headwater.common.error_codes import ErrorCode
from headwater.metadata.changes import ConfigsReplaced
from headwater.metadata.config_entities import resource_of
from headwater.protocol.api_key import ApiKey
from headwater.protocol.codec import response_class
from headwater.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headwater.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from headwater.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headwater.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from headwater.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from headwater.protocol.older_versions import Message
from headwater.security.quotas.quota_entities import DEFAULT, QuotaEntity
from tests.simulation.labs.broker_lab import BrokerLab, Peer
from tests.simulation.labs.cluster_lab import topic

COUNT = 1_000
CUT = {name: make for name, make in LARGE_REQUESTS.items() if make(2)[0].api in SLICED}
UNCUT = {name: make for name, make in LARGE_REQUESTS.items() if name not in CUT}


def new_lab() -> BrokerLab:
    """A broker with a topic and a group coordinator."""
    lab = BrokerLab()
    lab.create("bench", 3)
    lab.ask(FindCoordinatorRequest(coordinator_keys=("g",)), FindCoordinatorResponse)
    return lab


def answer(lab: BrokerLab, request: Message, version: int, peer: Peer | None = None) -> Any:
    return lab.ask(request, response_class(request.api), version, peer)


@pytest.mark.parametrize("make", CUT.values(), ids=CUT)
def test_sliced_response_equals_the_whole_response(
    make: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, version = make(COUNT)
    peer = Peer()
    in_slices = answer(new_lab(), request, version, peer)
    # One for decoding, one for a slice and one for encoding at least.
    assert peer.steps_taken > 2
    if SLICED[request.api].identity is None:
        monkeypatch.setattr(request_slices, "SLICED", {})
        assert in_slices == answer(new_lab(), request, version)


@pytest.mark.parametrize("make", CUT.values(), ids=CUT)
def test_slices_do_not_exceed_their_size(make: MakeRequest) -> None:
    request, _ = make(COUNT)
    slicing = SLICED[request.api]
    sizes = [
        slicing._size_of(getattr(each, slicing.request_array)) for each in slicing.split(request)
    ]
    assert max(sizes) <= 2 * slicing.count + 1


def test_every_request_with_many_elements_is_sliced_or_listed() -> None:
    assert {make(2)[0].api for make in UNCUT.values()} == {
        ApiKey.OFFSET_COMMIT,
        ApiKey.FETCH,
        ApiKey.PRODUCE,
        ApiKey.DESCRIBE_ACLS,
    }


def test_other_requests_are_served_between_slices() -> None:
    lab = new_lab()
    peer = Peer()
    peer.takes_steps = False
    sent = lab.send(DescribeGroupsRequest(groups=_names(COUNT)), peer=peer)
    assert sent.is_held
    steps = 0
    for _ in peer.steps:
        steps += 1
        assert not sent.is_answered
        assert lab.ask(MetadataRequest(topics=None), MetadataResponse).brokers
    assert steps >= COUNT // SLICED[ApiKey.DESCRIBE_GROUPS].count
    assert len(sent.answer(DescribeGroupsResponse).groups) == COUNT


def test_closed_connection_gets_no_further_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = new_lab()
    peer = Peer()
    peer.takes_steps = False
    response_array: list[Message] = []
    real = request_handler.answer

    def watched(broker: Any, call: Any, request: Message) -> Any:
        response_array.append(request)
        return real(broker, call, request)

    monkeypatch.setattr(request_slices, "answer", watched)
    lab.send(DescribeGroupsRequest(groups=_names(COUNT)), peer=peer)
    while not response_array:
        next(peer.steps)
    peer.is_closed = True
    assert sum(1 for _ in peer.steps) <= 1
    assert len(response_array) <= 2


def test_small_request_is_answered_at_once() -> None:
    peer = Peer()
    new_lab().ask(DescribeGroupsRequest(groups=("g",)), DescribeGroupsResponse, peer=peer)
    assert peer.steps_taken == 0


def test_repeated_elements_are_answered_once() -> None:
    """Kafka repeats the answer, so that five bytes of a request make kilobytes of a response."""
    lab = new_lab()
    resource = DescribeConfigsResource(
        resource_type=2, resource_name="bench", configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=(resource,) * 5_000)
    assert len(lab.ask(request, DescribeConfigsResponse).results) == 1
    groups = (OffsetFetchRequestGroup(group_id="g", topics=None),) * 5_000
    assert len(lab.ask(OffsetFetchRequest(groups=groups), OffsetFetchResponse, 8).groups) == 1
    named = (*_names(500), *_names(500))
    described = lab.ask(DescribeGroupsRequest(groups=named), DescribeGroupsResponse).groups
    assert tuple(each.group_id for each in described) == _names(500)


def test_topics_by_name_are_ignored_beside_ids() -> None:
    """As in Kafka 4.1, and a slice must not undo it."""
    lab = new_lab()
    found = lab.ask(MetadataRequest(topics=None), MetadataResponse).topics
    (topic_id,) = {each.topic_id for each in found if each.name == "bench"}
    named = tuple(MetadataRequestTopic(name=name) for name in _names(COUNT))
    request = MetadataRequest(topics=(*named, MetadataRequestTopic(name=None, topic_id=topic_id)))
    (described,) = lab.ask(request, MetadataResponse).topics
    assert described.name == "bench"


def test_duplicate_topic_creations_are_rejected_wherever_they_are() -> None:
    lab = new_lab()
    topics = tuple(topic(name, 1, 1) for name in (*_names(500), "n7"))
    answer_ = lab.ask(CreateTopicsRequest(topics=topics), CreateTopicsResponse)
    codes = {each.name: each.error_code for each in answer_.topics}
    assert codes.pop("n7") is ErrorCode.INVALID_REQUEST
    assert set(codes.values()) == {ErrorCode.NONE}
    assert len(codes) == 499
    assert "n8" in lab.broker.image.topics
    assert "n7" not in lab.broker.image.topics


def test_partitions_of_one_topic_are_joined() -> None:
    lab = new_lab()
    wanted = OffsetFetchRequestTopics(name="bench", partition_indexes=(0, 1, 2))
    others = tuple(
        OffsetFetchRequestTopics(name=name, partition_indexes=(0,)) for name in _names(COUNT)
    )
    group = OffsetFetchRequestGroup(group_id="g", topics=(wanted, *others))
    (found,) = lab.ask(OffsetFetchRequest(groups=(group,)), OffsetFetchResponse, 8).groups
    assert [each.name for each in found.topics] == ["bench", *_names(COUNT)]


def test_time_of_all_slices_is_charged_to_the_quota() -> None:
    lab = new_lab()
    entity = QuotaEntity(user=DEFAULT)
    lab.change(ConfigsReplaced(resource_of(entity), {"request_percentage": "0.000001"}))
    peer = Peer()
    request = DescribeGroupsRequest(groups=_names(COUNT))
    described = lab.ask(request, DescribeGroupsResponse, peer=peer)
    assert len(described.groups) == COUNT
    assert described.throttle_time_ms > 0
    assert peer.muted_until_ms is not None


def test_late_response_of_a_slice_is_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = new_lab()
    waiting: list[Any] = []
    real = request_handler.answer

    def late(broker: Any, call: Any, request: Message) -> None:
        waiting.append((call, real(broker, call, request)))

    monkeypatch.setattr(request_slices, "answer", late)
    topics = tuple(MetadataRequestTopic(name=name) for name in _names(COUNT))
    sent = lab.send(MetadataRequest(topics=topics, allow_auto_topic_creation=False))
    assert len(waiting) == COUNT // SLICED[ApiKey.METADATA].count
    for call, response in _backwards(waiting):
        assert not sent.is_answered
        call.answer(response)
    assert tuple(each.name for each in sent.answer(MetadataResponse).topics) == _names(COUNT)


def _backwards(items: list[Any]) -> Iterator[Any]:
    return iter(items[::-1])


def _names(count: int) -> tuple[str, ...]:
    return tuple(f"n{number}" for number in range(count))
