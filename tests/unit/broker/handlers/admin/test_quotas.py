"""Quotas: immediate responses with a throttle time, and muted connections."""

from headwater.broker.requests.call import Call
from headwater.broker.requests.quota_managers import QuotaKind, ThrottleTimes
from headwater.broker.requests.request_counters import RequestCounters
from headwater.broker.requests.throttled_call import ThrottledCall
from headwater.common.error_codes import ErrorCode
from headwater.common.principal import Principal, Requester
from headwater.metadata.changes import ConfigsReplaced
from headwater.metadata.config_entities import resource_of
from headwater.network.request_service import ResponseSlot
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import write
from headwater.protocol.headers import RequestHeader, response_frame
from headwater.protocol.messages import alter_client_quotas as alter
from headwater.protocol.messages import describe_client_quotas as describe
from headwater.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from headwater.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from headwater.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headwater.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.protocol.messages.metadata import MetadataRequest, MetadataResponse
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headwater.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from headwater.protocol.send_parts import part_bytes
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from headwater.security.authorization.authorizer import Operation
from headwater.security.quotas.quota_entities import DEFAULT, QuotaEntity
from headwater.security.quotas.rate_quota import QuotaClient
from tests.simulation.labs.broker_lab import START_MS, BrokerLab, Peer, Refusing, Sent
from tests.simulation.labs.cluster_lab import topic

WILDCARD_PRINCIPAL = QuotaEntity(client_id=DEFAULT)
NAMES_UP_TO = 12
OVER = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def lab_with(entity: QuotaEntity = WILDCARD_PRINCIPAL, **quotas: str) -> BrokerLab:
    lab = BrokerLab()
    lab.create("t")
    give(lab, entity, **quotas)
    return lab


def give(lab: BrokerLab, entity: QuotaEntity, **quotas: str) -> None:
    lab.change(ConfigsReplaced(resource_of(entity), quotas))


def produce(
    lab: BrokerLab, size_bytes: int, *, acks: int = 1, peer: Peer | None = None
) -> tuple[Sent, Peer]:
    peer = peer or Peer()
    records = [Record(key=None, value=bytes(size_bytes), timestamp=START_MS)]
    data = PartitionProduceData(index=0, records=memoryview(build_batch(records)))
    request = ProduceRequest(
        acks=acks, topic_data=(TopicProduceData(name="t", partition_data=(data,)),)
    )
    return lab.send(request, NAMES_UP_TO, peer), peer


def fetch(
    lab: BrokerLab,
    *,
    offset: int = 0,
    session: tuple[int, int] = (0, -1),
    replica_id: int = -1,
    max_bytes: int = 1 << 20,
) -> tuple[FetchResponse, Peer]:
    wanted = FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        replica_id=replica_id,
        min_bytes=1,
        max_bytes=max_bytes,
        session_id=session[0],
        session_epoch=session[1],
        topics=(FetchTopic(topic="t", partitions=(wanted,)),),
    )
    peer = Peer()
    return lab.send(request, NAMES_UP_TO, peer).answer(FetchResponse), peer


def size_of(response: FetchResponse) -> int:
    found = [each.records for topic in response.responses for each in topic.partitions]
    return sum(part_bytes(records) for records in found if records is not None)


# Producing.


def test_producer_above_its_quota_is_answered_at_once_and_muted() -> None:
    """QU-2, KIP-219."""
    lab = lab_with(producer_byte_rate="1000")
    sent, peer = produce(lab, 20_000)
    answer = sent.answer(ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == 0
    # A little more than twenty seconds' worth, of which ten are free.
    assert 10_000 < answer.throttle_time_ms < 10_200
    assert peer.muted_until_ms == answer.throttle_time_ms
    assert lab.throttling.waits[QuotaKind.PRODUCE].now == 1
    lab.pass_time(answer.throttle_time_ms - 1)
    assert peer.muted_until_ms is not None
    lab.pass_time(1)
    assert peer.muted_until_ms is None
    waits = lab.throttling.waits[QuotaKind.PRODUCE]
    assert waits == ThrottleTimes(count=1, total_ms=answer.throttle_time_ms, now=0)


def test_producer_with_acks_0_is_muted_too() -> None:
    lab = lab_with(producer_byte_rate="1000")
    sent, peer = produce(lab, 20_000, acks=0)
    assert sent.was_silent
    assert not peer.is_closed
    assert peer.muted_until_ms is not None


def test_producer_within_its_quota_is_not_throttled() -> None:
    lab = lab_with(producer_byte_rate="1000")
    sent, peer = produce(lab, 5_000)
    assert sent.answer(ProduceResponse).throttle_time_ms == 0
    assert peer.muted_until_ms is None


def test_quota_of_one_user_does_not_affect_another() -> None:
    lab = lab_with(QuotaEntity(user="alice"), producer_byte_rate="1")
    sent, peer = produce(lab, 20_000)
    assert sent.answer(ProduceResponse).throttle_time_ms == 0
    assert peer.muted_until_ms is None
    alice = Peer()
    alice.requester = Requester(Principal("User", "alice"), "192.0.2.1")
    sent, _ = produce(lab, 20_000, peer=alice)
    assert sent.answer(ProduceResponse).throttle_time_ms > 0
    assert alice.muted_until_ms is not None


def test_without_a_quota_nothing_is_throttled() -> None:
    lab = lab_with(producer_byte_rate="1000")
    assert lab.broker.quotas is lab.throttling
    give(lab, WILDCARD_PRINCIPAL)
    assert lab.broker.quotas is None
    assert produce(lab, 20_000)[1].muted_until_ms is None


def test_closed_connection_is_not_waited_for() -> None:
    lab = lab_with(producer_byte_rate="1000")
    _, peer = produce(lab, 20_000)
    peer.is_closed = True
    lab.broker.timer.expire_disconnected()
    assert lab.throttling.waits[QuotaKind.PRODUCE].now == 0
    assert len(lab.broker.timer) == 0


# Fetching.


def test_consumer_above_its_quota_gets_an_empty_response_and_its_records_later() -> None:
    lab = lab_with(consumer_byte_rate="1000")
    for _ in range(4):
        lab.produce("t", bytes(3_000))
    # As much as the window allows, in whole batches (FT-1).
    first, peer = fetch(lab)
    assert 9_000 < size_of(first) <= 10_000
    assert first.throttle_time_ms == 0
    assert peer.muted_until_ms is None
    second, peer = fetch(lab, offset=3)
    assert second.responses == ()
    assert 2_000 < second.throttle_time_ms < 4_000
    assert peer.muted_until_ms == second.throttle_time_ms
    assert lab.throttling.waits[QuotaKind.FETCH].count == 1
    # The empty response was not charged, so the throttle time does not grow.
    again, _ = fetch(lab, offset=3)
    assert again.throttle_time_ms == second.throttle_time_ms
    lab.pass_time(11_000)
    assert size_of(fetch(lab, offset=3)[0]) > 3_000


def test_fetch_session_continues_after_throttling_but_does_not_start_with_it() -> None:
    lab = lab_with(consumer_byte_rate="1000")
    lab.produce("t", bytes(9_000))
    opened, _ = fetch(lab, session=(0, 0))
    assert opened.session_id > 0
    lab.produce("t", bytes(3_000))
    refused, _ = fetch(lab, offset=1, session=(opened.session_id, 1))
    assert refused.throttle_time_ms > 0
    assert refused.session_id == opened.session_id
    full, _ = fetch(lab, session=(0, 0))
    assert full.throttle_time_ms > 0
    assert full.session_id == 0
    assert len(lab.broker.sessions) == 1
    lab.pass_time(11_000)
    resumed, _ = fetch(lab, offset=1, session=(opened.session_id, 2))
    assert resumed.error_code == 0
    assert size_of(resumed) > 3_000


def test_follower_is_never_throttled() -> None:
    """QU-6."""
    lab = lab_with(consumer_byte_rate="1", request_percentage="0.000001")
    lab.produce("t", bytes(3_000))
    answer, peer = fetch(lab, replica_id=7)
    assert answer.throttle_time_ms == 0
    assert peer.muted_until_ms is None


def test_client_that_poses_as_a_broker_is_throttled() -> None:
    """QU-6. Kafka 4.1 throttles requests that it rejects for lack of CLUSTER_ACTION."""
    lab = lab_with(request_percentage="0.000001")
    markers = WriteTxnMarkersRequest(markers=())
    _, peer = fetch(lab, replica_id=7)
    assert peer.muted_until_ms is None
    lab.send(markers, 1, peer)
    assert peer.muted_until_ms is None
    lab.broker.authorizer = Refusing(Operation.CLUSTER_ACTION)
    _, peer = fetch(lab, replica_id=7)
    assert peer.muted_until_ms is not None
    peer = Peer()
    lab.send(markers, 1, peer)
    assert peer.muted_until_ms is not None


def test_rejected_fetch_is_charged_request_time() -> None:
    lab = lab_with(request_percentage="0.000001")
    answer, peer = fetch(lab, session=(7, 7))
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert answer.throttle_time_ms == 1_000
    assert peer.muted_until_ms == 1_000


def test_long_client_id_is_truncated_in_quota_state() -> None:
    """Ten thousand clients are remembered, and a header has room for an id of 32 kilobytes."""
    principal = Principal("User", "alice")
    assert QuotaClient.of(principal, "x" * 32_767) == QuotaClient("alice", "x" * 255)
    lab = lab_with(request_percentage="0.000001")
    lab.send(MetadataRequest(topics=None), 12, Peer(), client_id="x" * 32_767)
    (only,) = lab.throttling.clients.request.uses(0)
    assert only.sharing.client_id == "x" * 255


# Request time.


def test_every_response_with_the_field_has_the_throttle_time() -> None:
    """QU-2: no longer than one sample. Cached encoded responses have it too."""
    lab = lab_with(request_percentage="0.000001")
    peer = Peer()
    sent = lab.send(MetadataRequest(topics=None), 12, peer)
    assert sent.answer(MetadataResponse).throttle_time_ms == 1_000
    assert peer.muted_until_ms == 1_000
    told = lab.ask(
        ApiVersionsRequest(client_software_name="a", client_software_version="1"),
        ApiVersionsResponse,
        3,
    )
    assert told.throttle_time_ms == 1_000
    heartbeat = HeartbeatRequest(group_id="g", member_id="m")
    assert lab.ask(heartbeat, HeartbeatResponse, 4).throttle_time_ms == 1_000
    assert lab.ask(heartbeat, HeartbeatResponse, 0).throttle_time_ms == 0
    assert lab.throttling.waits[QuotaKind.REQUEST].count == 4
    answer, peer = fetch(lab)
    assert answer.throttle_time_ms == 1_000
    assert answer.responses == ()


# Controller mutations.


def create(
    lab: BrokerLab, version: int, *names: str, partitions: int = 1, validate: bool = False
) -> CreateTopicsResponse:
    request = CreateTopicsRequest(
        topics=tuple(topic(each, partitions, 1) for each in names),
        timeout_ms=60_000,
        validate_only=validate,
    )
    return lab.ask(request, CreateTopicsResponse, version)


def test_too_many_partitions_are_rejected_per_topic_with_a_throttle_time() -> None:
    """QU-4."""
    lab = lab_with(controller_mutation_rate="1")
    made = create(lab, 7, "a", "b", "c", partitions=8)
    assert [each.error_code for each in made.topics] == [0, 0, OVER]
    assert made.throttle_time_ms == 5_000
    assert create(lab, 7, "c", validate=True).topics[0].error_code == 0
    lab.pass_time(5_000)
    again = create(lab, 7, "c")
    assert again.topics[0].error_code == 0
    assert again.throttle_time_ms == 0


def test_older_client_with_too_many_partitions_is_served_and_throttled() -> None:
    """QU-4."""
    lab = lab_with(controller_mutation_rate="1")
    peer = Peer()
    request = CreateTopicsRequest(topics=(topic("a", 16, 1),), timeout_ms=60_000)
    made = lab.send(request, 5, peer).answer(CreateTopicsResponse)
    assert made.topics[0].error_code == 0
    assert made.throttle_time_ms == 5_000
    assert peer.muted_until_ms == 5_000
    assert lab.throttling.waits[QuotaKind.CONTROLLER_MUTATION].count == 1


def test_deleting_topics_and_adding_partitions_count_as_mutations() -> None:
    lab = lab_with(controller_mutation_rate="1")
    assert create(lab, 7, "a", partitions=16).topics[0].error_code == 0
    doomed = DeleteTopicsRequest(topics=(DeleteTopicState(name="a"),), timeout_ms=60_000)
    refused = lab.ask(doomed, DeleteTopicsResponse, 6)
    assert refused.responses[0].error_code == OVER
    assert refused.throttle_time_ms == 5_000
    assert lab.ask(doomed, DeleteTopicsResponse, 4).responses[0].error_code == 0
    # Now the quota is exceeded by 21 partitions, since the older request was served.
    grown = CreatePartitionsRequest(
        topics=(CreatePartitionsTopic(name="t", count=2, assignments=None),), timeout_ms=60_000
    )
    answer = lab.ask(grown, CreatePartitionsResponse, 3)
    assert answer.results[0].error_code == OVER
    assert answer.throttle_time_ms == 21_000
    assert lab.ask(grown, CreatePartitionsResponse, 2).results[0].error_code == 0


def test_throttle_time_of_a_forwarded_request_is_enforced() -> None:
    """The controller's response passes through, and this broker mutes the connection."""
    lab = lab_with(controller_mutation_rate="1")
    peer = Peer()
    slot = ResponseSlot(peer)
    api = APIS[ApiKey.CREATE_TOPICS]
    header = RequestHeader(api, 7, 5, "lab", 0)
    call: Call = ThrottledCall(
        header,
        slot,
        RequestCounters(api.newest),
        0,
        throttling=lab.throttling,
        quota_client=QuotaClient("ANONYMOUS", "lab"),
        size_bytes=100,
    )
    body = write(CreateTopicsResponse(throttle_time_ms=7_000), 7)
    frame = b"".join(
        bytes(part)
        for part in response_frame(api, 7, 5, body)
        if isinstance(part, bytes | bytearray)
    )
    call.answer_content(frame[4:])
    assert slot.parts is not None
    assert b"".join(part for part in slot.parts if isinstance(part, bytes)) == frame
    assert peer.muted_until_ms == 7_000


# AlterClientQuotas and DescribeClientQuotas.


def test_altered_quotas_are_described_and_enforced_at_once() -> None:
    lab = BrokerLab()
    lab.create("t")
    entity = (alter.EntityData(entity_type="client-id", entity_name="lab"),)
    ops = (alter.OpData(key="producer_byte_rate", value=1_000.0),)
    request = alter.AlterClientQuotasRequest(entries=(alter.EntryData(entity=entity, ops=ops),))
    (result,) = lab.ask(request, alter.AlterClientQuotasResponse).entries
    assert result == alter.EntryResult(entity=entity)
    told = lab.ask(describe.DescribeClientQuotasRequest(), describe.DescribeClientQuotasResponse)
    assert told.entries == (
        describe.EntryData(
            entity=(describe.EntityData(entity_type="client-id", entity_name="lab"),),
            values=(describe.ValueData(key="producer_byte_rate", value=1_000.0),),
        ),
    )
    assert produce(lab, 20_000)[1].muted_until_ms is not None


def test_invalid_filter_is_answered_without_entries() -> None:
    asked = describe.ComponentData(entity_type="nothing", match_type=2, match=None)
    request = describe.DescribeClientQuotasRequest(components=(asked,))
    answer = BrokerLab().ask(request, describe.DescribeClientQuotasResponse)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.entries is None
