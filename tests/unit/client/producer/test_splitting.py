"""Splitting batches that are too large for the broker, with several in flight, keeps the order.

Responses are held back until all requests of a test have arrived, so that the expected number of
batches is in flight when the first is rejected. No more may be, or a response that is not held
back would overtake them.
"""

from collections.abc import Iterable, Sequence

import pytest

from headwater.client.errors import KafkaError, MessageTooLarge
from headwater.client.producer.record_future import RecordFuture
from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from tests.simulation.fakes.mock_broker import TIMEOUT_S, Late
from tests.simulation.fakes.mock_cluster import MockCluster
from tests.simulation.labs.producer_faces import Face, OpenProducer
from tests.unit.client.producer.test_producer_faults import refusing, values

# Nine of them fill a batch; the broker accepts two at a time, so that halves are split again.
BATCH_BYTES = 620
LIMIT_BYTES = 200
VALUES = [b"%02d" % number + bytes(48) for number in range(60)]
LARGE = b"large" + bytes(200)


def limited(cluster: MockCluster) -> None:
    cluster.topics["tea"][0].max_message_bytes = LIMIT_BYTES


def sent_together(
    producer: Face, cluster: MockCluster, fates: Sequence[Late], sent: Iterable[bytes] = VALUES
) -> list[RecordFuture]:
    """Send values with a warm producer; the first batches are answered when all have arrived."""
    cluster.script(ApiKey.PRODUCE, *fates)
    futures = [producer.send("tea", value) for value in sent]
    cluster.brokers[0].await_requests(ApiKey.PRODUCE, 1 + len(fates))

    def answer() -> None:
        for fate in fates:
            fate.answer()

    cluster.on_loop(answer)
    return futures


def warm(
    open_producer: OpenProducer, cluster: MockCluster, under_way: int, **settings: object
) -> Face:
    """A producer whose first record is acknowledged, so that several batches may be in flight."""
    producer = open_producer(
        bootstrap_servers=cluster.bootstrap_servers,
        batch_size=BATCH_BYTES,
        linger_ms=20,
        max_in_flight_requests_per_connection=under_way,
        **settings,
    )
    if "transactional_id" in settings:
        producer.do("init_transactions")
        producer.do("begin_transaction")
    producer.result(producer.send("tea", b"first"))
    return producer


@pytest.mark.parametrize("under_way", [2, 3, 5])
def test_batches_rejected_together_are_split_and_sent_in_order(
    open_producer: OpenProducer, under_way: int
) -> None:
    """IDP-1, IDP-2: parts of a later batch do not block parts of an earlier one."""
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = warm(open_producer, cluster, under_way)
        limited(cluster)
        futures = sent_together(producer, cluster, [Late() for _ in range(under_way)])
        assert [producer.result(future).offset for future in futures] == list(range(1, 61))
        assert values(cluster) == [b"first", *VALUES]
        headers = cluster.topics["tea"][0].headers
        assert {header.producer_epoch for header in headers} == {0}


@pytest.mark.parametrize(
    "codes",
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_parts_follow_an_earlier_batch_that_is_retried(
    open_producer: OpenProducer, codes: tuple[ErrorCode, ...]
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        # Long enough for the rejection of the next batch to arrive before the first is sent again.
        producer = warm(open_producer, cluster, len(codes), **{"retry.backoff.ms": 100})
        futures = sent_together(
            producer, cluster, [Late(instead=refusing(code).answer) for code in codes]
        )
        assert [producer.result(future).offset for future in futures] == list(range(1, 61))
        assert values(cluster) == [b"first", *VALUES]


def test_without_idempotence_all_parts_arrive(open_producer: OpenProducer) -> None:
    """The order of batches is not guaranteed then, but that of a batch's parts is."""
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = warm(open_producer, cluster, 3, enable_idempotence=False)
        limited(cluster)
        futures = sent_together(producer, cluster, [Late(), Late(), Late()])
        for future in futures:
            producer.result(future)
        assert sorted(map(bytes, filter(None, values(cluster)[1:]))) == VALUES


def test_without_idempotence_one_request_in_flight_keeps_the_order_of_parts(
    open_producer: OpenProducer,
) -> None:
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = warm(open_producer, cluster, 1, enable_idempotence=False)
        limited(cluster)
        futures = [producer.send("tea", value) for value in VALUES]
        for future in futures:
            producer.result(future)
        assert values(cluster) == [b"first", *VALUES]


@pytest.mark.parametrize("version", [1, 2])
def test_batches_of_a_transaction_rejected_together_are_committed_in_parts(
    open_producer: OpenProducer, version: int
) -> None:
    features = {"transaction.version": version}
    with MockCluster(topics={"tea": 1}, features=features) as cluster:
        producer = warm(open_producer, cluster, 3, transactional_id="till")
        limited(cluster)
        futures = sent_together(producer, cluster, [Late(), Late(), Late()])
        producer.do("commit_transaction")
        assert [future.result(0).offset for future in futures] == list(range(1, 61))
        assert values(cluster) == [b"first", *VALUES]
        assert [what for what, _, _ in cluster.transactions.diary] == ["commit"]


@pytest.mark.parametrize("place", [0, 4, 13, 59], ids=lambda place: f"record {place}")
@pytest.mark.parametrize("is_idempotent", [True, False], ids=["idempotent", "plain"])
def test_a_record_that_is_too_large_by_itself_fails_alone(
    open_producer: OpenProducer, is_idempotent: bool, place: int
) -> None:
    """KIP-360: its sequence stays empty, so the others continue with the next epoch."""
    sent = [*VALUES[:place], LARGE, *VALUES[place:]]
    under_way = 3 if is_idempotent else 1
    with MockCluster(topics={"tea": 1}) as cluster:
        producer = warm(open_producer, cluster, under_way, enable_idempotence=is_idempotent)
        limited(cluster)
        futures = sent_together(producer, cluster, [Late() for _ in range(under_way)], sent)
        errors = [failure(producer, future) for future in futures]
        assert [type(error) for error in errors if error is not None] == [MessageTooLarge]
        assert errors[place] is not None
        assert values(cluster) == [b"first", *VALUES]
        assert producer.result(producer.send("tea", b"last")).offset == 61
        epochs = [header.producer_epoch for header in cluster.topics["tea"][0].headers]
        assert epochs == sorted(epochs)
        assert epochs[-1] == (1 if is_idempotent else -1)


def failure(producer: Face, future: RecordFuture) -> KafkaError | None:
    try:
        producer.result(future)
    except KafkaError as error:
        return error
    return None


@pytest.mark.parametrize("version", [1, 2])
def test_a_record_that_is_too_large_by_itself_fails_its_transaction_and_no_later_one(
    open_producer: OpenProducer, version: int
) -> None:
    features = {"transaction.version": version}
    with MockCluster(topics={"tea": 1}, features=features) as cluster:
        producer = warm(open_producer, cluster, 3, transactional_id="till")
        limited(cluster)
        futures = sent_together(
            producer, cluster, [Late(), Late(), Late()], (*VALUES[:13], LARGE, *VALUES[13:30])
        )
        with pytest.raises(MessageTooLarge):
            producer.do("commit_transaction")
        assert isinstance(futures[13].exception(TIMEOUT_S), MessageTooLarge)
        producer.do("abort_transaction")
        producer.do("begin_transaction")
        again = [producer.send("tea", value) for value in VALUES]
        producer.do("commit_transaction")
        assert all(future.exception(0) is None for future in again)
        assert values(cluster)[-60:] == VALUES
        assert [what for what, _, _ in cluster.transactions.diary] == ["abort", "commit"]
