"""The producer with faulty brokers: nothing is lost, duplicated or reordered.

The scripted cluster checks sequences as Kafka does, so that a wrong one fails these tests.
"""

import pytest

from headwater.client.errors import (
    ClusterAuthorizationFailed,
    InvalidRecord,
    KafkaError,
    KafkaTimeout,
    MessageTooLarge,
    TopicAuthorizationFailed,
)
from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from headwater.protocol.messages.init_producer_id import InitProducerIdResponse
from headwater.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.simulation.fakes.mock_broker import (
    TIMEOUT_S,
    Afterwards,
    Fate,
    Garbage,
    HangUp,
    Instead,
    Stall,
)
from tests.simulation.fakes.mock_cluster import MockCluster
from tests.simulation.labs.producer_faces import Face, OpenProducer

NUMBERS = [b"%d" % number for number in range(60)]


def values(cluster: MockCluster, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in cluster.topics["tea"][partition].records]


def refusing(code: ErrorCode, **more: object) -> Instead:
    """Reject every batch of a request."""

    def answer(request: ProduceRequest) -> ProduceResponse:
        return ProduceResponse(
            responses=tuple(
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=tuple(
                        PartitionProduceResponse(
                            index=each.index,
                            error_code=code,
                            base_offset=-1,
                            **more,  # type: ignore[arg-type]
                        )
                        for each in topic.partition_data
                    ),
                )
                for topic in request.topic_data
            )
        )

    return Instead(answer)


def small_batches(open_producer: OpenProducer, cluster: MockCluster, **settings: object) -> Face:
    """A producer with about three records per batch."""
    return open_producer(bootstrap_servers=cluster.bootstrap_servers, batch_size=90, **settings)


def enough_for(*faults: Fate) -> dict[str, object]:
    """Response timeouts: short where no response will come, else very long.

    A response that is late only because the machine is busy must not count as lost.
    """
    is_silent = any(isinstance(fault, Stall) for fault in faults)
    return {"request_timeout_ms": 500} if is_silent else {}


FAULTS: dict[str, list[Fate]] = {
    "hangs up": [HangUp()],
    "hangs up often": [HangUp()] * 4,
    "hangs up after writing": [HangUp(is_done=True)],
    "hangs up in turn": [HangUp(is_done=True), HangUp(), HangUp(is_done=True)],
    "stalls": [Stall()],
    "stalls after writing": [Stall(is_done=True)],
    "garbage": [Garbage()],
    "an empty answer": [Garbage(b"")],
    "an answer about nothing": [Instead(lambda _: ProduceResponse())],
    "not leader": [refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)],
    "unknown topic": [refusing(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)] * 3,
    "too few replicas": [refusing(ErrorCode.NOT_ENOUGH_REPLICAS)] * 2,
    "corrupt": [refusing(ErrorCode.CORRUPT_MESSAGE)],
    "storage error": [refusing(ErrorCode.KAFKA_STORAGE_ERROR)],
    "unknown topic id": [refusing(ErrorCode.UNKNOWN_TOPIC_ID)],
    "refused, then gone": [refusing(ErrorCode.REQUEST_TIMED_OUT), HangUp(is_done=True)],
}


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS.keys())
def test_a_temporary_fault_does_not_lose_duplicate_or_reorder_records(
    open_producer: OpenProducer, faults: list[Fate]
) -> None:
    """IDP-1, IDP-2: in order and once, with five requests in flight."""
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = small_batches(open_producer, cluster, **enough_for(*faults))
        producer.result(producer.send("tea", NUMBERS[0]))
        cluster.script(ApiKey.PRODUCE, *faults)
        futures = [producer.send("tea", value) for value in NUMBERS[1:]]
        offsets = [producer.result(future).offset for future in futures]
        assert values(cluster) == NUMBERS
        assert offsets == list(range(1, len(NUMBERS)))


@pytest.mark.parametrize("api", [ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID])
@pytest.mark.parametrize("fault", [HangUp(), Garbage(), Stall()], ids=lambda fault: str(fault))
def test_a_fault_before_the_first_record_delays_it(
    open_producer: OpenProducer, api: ApiKey, fault: Fate
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        cluster.script(api, fault, fault)
        producer = small_batches(open_producer, cluster, **enough_for(fault))
        assert producer.result(producer.send("tea", b"green")).offset == 0


def test_records_wait_for_a_broker_that_restarts(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = small_batches(open_producer, cluster)
        producer.result(producer.send("tea", b"first"))
        cluster.stop(0)
        future = producer.send("tea", b"second")
        cluster.start(0)
        assert producer.result(future).offset == 1


def test_batches_follow_a_leader_that_moved(open_producer: OpenProducer) -> None:
    with MockCluster(nodes=2, topics={"tea": 1}) as cluster:
        producer = small_batches(open_producer, cluster)
        producer.result(producer.send("tea", b"first"))
        cluster.on_loop(lambda: cluster.move_leader("tea", 0, 1))
        assert producer.result(producer.send("tea", b"second")).offset == 1
        assert len(cluster.brokers[1].requests(ApiKey.PRODUCE)) == 1


def test_a_leader_hint_saves_a_metadata_request(
    open_producer: OpenProducer,
) -> None:
    """KIP-951."""
    with MockCluster(nodes=2, topics={"tea": 1}) as cluster:
        producer = small_batches(open_producer, cluster)
        producer.result(producer.send("tea", b"first"))
        cluster.on_loop(lambda: cluster.move_leader("tea", 0, 1))
        before = len(cluster.requests(ApiKey.METADATA))

        def successor(response: ProduceResponse) -> ProduceResponse:
            (topic,) = response.responses
            (partition,) = topic.partition_responses
            return ProduceResponse(
                responses=(
                    TopicProduceResponse(
                        name=topic.name,
                        topic_id=topic.topic_id,
                        partition_responses=(
                            PartitionProduceResponse(
                                error_code=partition.error_code,
                                current_leader=LeaderIdAndEpoch(leader_id=1, leader_epoch=1),
                            ),
                        ),
                    ),
                ),
                node_endpoints=(
                    NodeEndpoint(node_id=1, host="127.0.0.1", port=cluster.brokers[1].port),
                ),
            )

        cluster.script(ApiKey.PRODUCE, Afterwards(successor))
        assert producer.result(producer.send("tea", b"second")).offset == 1
        assert len(cluster.requests(ApiKey.METADATA)) == before


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationFailed),
        (ErrorCode.INVALID_RECORD, InvalidRecord),
        (ErrorCode.MESSAGE_TOO_LARGE, MessageTooLarge),
    ],
)
def test_a_fatal_error_fails_only_its_batch(
    open_producer: OpenProducer, code: ErrorCode, error: type[KafkaError]
) -> None:
    """KIP-360: the sequences of the failed batch cannot be filled, so the epoch is bumped."""
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = small_batches(open_producer, cluster, linger_ms=0)
        producer.result(producer.send("tea", b"first"))
        cluster.script(ApiKey.PRODUCE, refusing(code))
        refused = producer.send("tea", bytes(50))
        with pytest.raises(error):
            producer.result(refused)
        later = [producer.send("tea", value) for value in NUMBERS]
        for future in later:
            producer.result(future)
        assert values(cluster) == [b"first", *NUMBERS]
        epochs = [header.producer_epoch for header in cluster.topics["tea"][0].headers]
        assert epochs[0] == 0
        assert set(epochs[1:]) == {1}


def test_a_rejection_names_the_records(open_producer: OpenProducer) -> None:
    """KIP-467."""
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = small_batches(open_producer, cluster)
        cluster.script(
            ApiKey.PRODUCE,
            refusing(
                ErrorCode.INVALID_RECORD,
                error_message="no key",
                record_errors=(
                    BatchIndexAndErrorMessage(
                        batch_index=2, batch_index_error_message="needs a key"
                    ),
                ),
            ),
        )
        with pytest.raises(InvalidRecord, match="no key; record 2: needs a key"):
            producer.result(producer.send("tea", b"green"))


def test_an_unknown_producer_id_restarts_the_sequences(open_producer: OpenProducer) -> None:
    """KIP-360."""
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = small_batches(open_producer, cluster)
        producer.result(producer.send("tea", b"first"))
        cluster.script(ApiKey.PRODUCE, refusing(ErrorCode.UNKNOWN_PRODUCER_ID))
        futures = [producer.send("tea", value) for value in NUMBERS]
        for future in futures:
            producer.result(future)
        assert values(cluster) == [b"first", *NUMBERS]


def test_a_sequence_gap_is_resolved_with_a_new_epoch(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = small_batches(open_producer, cluster)
        producer.result(producer.send("tea", b"first"))

        def forget() -> None:
            (entry,) = cluster.topics["tea"][0].producers.values()
            entry.batches = [(100, 100, 0)]

        cluster.on_loop(forget)
        futures = [producer.send("tea", value) for value in NUMBERS]
        for future in futures:
            producer.result(future)
        assert values(cluster) == [b"first", *NUMBERS]


def test_a_batch_too_large_for_the_broker_is_split(
    open_producer: OpenProducer,
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers, linger_ms=50, compression_type="lz4"
        )
        cluster.script(ApiKey.PRODUCE, refusing(ErrorCode.MESSAGE_TOO_LARGE))
        called: list[int] = []
        futures = [
            producer.send(
                "tea", value, on_delivery=lambda done: called.append(done.result(0).offset)
            )
            for value in NUMBERS
        ]
        assert [producer.result(future).offset for future in futures] == list(range(60))
        producer.do("flush", TIMEOUT_S)
        assert values(cluster) == NUMBERS
        assert len(cluster.topics["tea"][0].headers) > 1
        assert producer.do("metrics")["batch-split-total"] >= 1
    assert called == list(range(60))


def test_an_unacknowledged_record_fails_after_the_delivery_timeout(
    open_producer: OpenProducer,
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = small_batches(
            open_producer, cluster, request_timeout_ms=4_000, delivery_timeout_ms=5_000
        )
        producer.result(producer.send("tea", b"first"))
        cluster.stop(0)
        future = producer.send("tea", b"lost")
        with pytest.raises(KafkaTimeout, match=r"delivery\.timeout\.ms"):
            producer.result(future)
        cluster.start(0)
        assert producer.result(producer.send("tea", b"later")).offset == 1
        assert values(cluster) == [b"first", b"later"]


def test_a_late_response_to_an_expired_batch_is_ignored(
    open_producer: OpenProducer,
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(
            bootstrap_servers=cluster.bootstrap_servers,
            request_timeout_ms=4_000,
            delivery_timeout_ms=4_005,
        )
        producer.result(producer.send("tea", b"first"))
        cluster.script(ApiKey.PRODUCE, Stall(is_done=True))
        with pytest.raises(KafkaTimeout):
            producer.result(producer.send("tea", b"unknown"))
        for value in NUMBERS:
            producer.send("tea", value)
        producer.do("flush", TIMEOUT_S)
        assert values(cluster) == [b"first", b"unknown", *NUMBERS]


def test_missing_authorization_is_fatal(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        cluster.script(
            ApiKey.INIT_PRODUCER_ID,
            Instead(
                lambda _: InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            ),
        )
        producer = small_batches(open_producer, cluster)
        # The producer id is requested from the start, so `send` itself may raise.
        with pytest.raises(ClusterAuthorizationFailed):
            producer.result(producer.send("tea", b"green"))
        with pytest.raises(ClusterAuthorizationFailed):
            producer.send("tea", b"green")


def test_without_retries_the_first_fault_fails_the_batch(open_producer: OpenProducer) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = open_producer(bootstrap_servers=cluster.bootstrap_servers, retries=0)
        cluster.script(ApiKey.PRODUCE, HangUp())
        with pytest.raises(KafkaError):
            producer.result(producer.send("tea", b"green"))
        assert producer.result(producer.send("tea", b"green")).offset == 0


def test_one_request_in_flight_keeps_the_order_without_idempotence(
    open_producer: OpenProducer,
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = small_batches(
            open_producer,
            cluster,
            enable_idempotence=False,
            max_in_flight_requests_per_connection=1,
        )
        cluster.script(ApiKey.PRODUCE, HangUp(), refusing(ErrorCode.NOT_ENOUGH_REPLICAS), HangUp())
        futures = [producer.send("tea", value) for value in NUMBERS]
        for future in futures:
            producer.result(future)
        assert values(cluster) == NUMBERS


def test_an_old_broker_gets_a_supported_produce_version(open_producer: OpenProducer) -> None:
    """Kafka 2.1 supports Produce up to version 7."""
    with MockCluster(topics={"tea": 1}) as cluster:
        cluster.brokers[0].newest = {
            ApiKey.PRODUCE: 7,
            ApiKey.METADATA: 7,
            ApiKey.INIT_PRODUCER_ID: 1,
            ApiKey.API_VERSIONS: 2,
        }
        producer = small_batches(open_producer, cluster)
        assert producer.result(producer.send("tea", b"green")).offset == 0
