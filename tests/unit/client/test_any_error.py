"""Producers, transactions and groups with brokers that return any error code once, at any step.

The client continues or raises a named error; it never hangs and never raises anything else. What
each error does is tested next to the code; here all error codes are covered.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from headwater.client import Consumer, Producer, TopicPartition
from headwater.client.errors import KafkaError
from headwater.common.error_codes import ErrorCode
from headwater.protocol.api_key import ApiKey
from tests.simulation.fakes.error_responses import saying
from tests.simulation.fakes.mock_cluster import MockCluster
from tests.simulation.fakes.mock_fetches import MockReading

TIMEOUT_S = 60
PLACE = TopicPartition("tea", 0)
QUICK: dict[str, object] = {
    "retry.backoff.ms": 1,
    "retry.backoff.max.ms": 5,
    "reconnect.backoff.ms": 1,
    "reconnect.backoff.max.ms": 5,
}

EVERY_CODE = [code for code in ErrorCode if code is not ErrorCode.NONE]
SOME_CODES = [
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.FENCED_INSTANCE_ID,
]
ALL_OR_SOME = [
    pytest.param(SOME_CODES, id="some"),
    pytest.param(EVERY_CODE, id="every", marks=pytest.mark.slow),
]

IN_A_GROUP = [
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.OFFSET_FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.FETCH,
    ApiKey.OFFSET_COMMIT,
    ApiKey.LEAVE_GROUP,
]


def consume(cluster: MockCluster) -> None:
    """Consume everything, commit and leave; three errors are the limit."""
    settings = {
        **QUICK,
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "drinkers",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "heartbeat.interval.ms": 5,
        "fetch.max.wait.ms": 5,
        "default.api.timeout.ms": 10_000,
    }
    errors = offset = 0
    limit_s = time.monotonic() + TIMEOUT_S
    with Consumer(settings) as consumer:
        consumer.subscribe(["tea"])
        while offset < 12 and errors < 3:
            assert time.monotonic() < limit_s, "no records, and no error"
            try:
                for record in consumer.poll(0.05):
                    assert record.value == b"%d" % record.offset
                    offset = record.offset + 1
                consumer.commit()
            except KafkaError:
                errors += 1
        assert offset == 12 or errors == 3


@pytest.mark.parametrize("codes", ALL_OR_SOME)
@pytest.mark.parametrize("api", IN_A_GROUP, ids=lambda api: api.name)
def test_a_group_member_continues_or_raises(api: ApiKey, codes: Sequence[ErrorCode]) -> None:
    for code in codes:
        with MockCluster(topics={"tea": 1}) as cluster:
            MockReading(cluster).append("tea", 0, 12)
            cluster.script(api, saying(code))
            consume(cluster)


def settled(step: Callable[[], object]) -> bool:
    """Whether a step succeeds; otherwise it has raised a Kafka error."""
    try:
        step()
    except KafkaError as error:
        said = str(error)
    else:
        return True
    assert said
    return False


def send(producer: Producer) -> None:
    producer.send("tea", b"green").result(TIMEOUT_S)


@pytest.mark.parametrize("codes", ALL_OR_SOME)
@pytest.mark.parametrize(
    "api", [ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID, ApiKey.PRODUCE], ids=lambda api: api.name
)
def test_a_record_is_sent_or_its_future_raises(api: ApiKey, codes: Sequence[ErrorCode]) -> None:
    for code in codes:
        with MockCluster(topics={"tea": 1}) as cluster:
            cluster.script(api, saying(code))
            settings = {**QUICK, "bootstrap.servers": cluster.bootstrap_servers}
            with Producer({**settings, "max.block.ms": 10_000}) as producer:
                for _ in range(2):
                    settled(partial(send, producer))


IN_A_TRANSACTION = [
    ApiKey.FIND_COORDINATOR,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.PRODUCE,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
]


def transact(producer: Producer) -> None:
    producer.begin_transaction()
    producer.send("tea", b"green")
    producer.send_offsets_to_transaction({PLACE: 7}, "drinkers")
    producer.commit_transaction()


@pytest.mark.parametrize("codes", ALL_OR_SOME)
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("api", IN_A_TRANSACTION, ids=lambda api: api.name)
def test_a_transaction_is_committed_abortable_or_fatal(
    api: ApiKey, version: int, codes: Sequence[ErrorCode]
) -> None:
    for code in codes:
        features = {"transaction.version": version}
        with MockCluster(topics={"tea": 1}, features=features) as cluster:
            cluster.script(api, saying(code))
            settings = {
                **QUICK,
                "bootstrap.servers": cluster.bootstrap_servers,
                "transactional.id": "till",
                "max.block.ms": 10_000,
            }
            with Producer(settings) as producer:
                if not settled(producer.init_transactions):
                    continue
                is_committed = settled(partial(transact, producer))
                if not is_committed and not settled(producer.abort_transaction):
                    # Fatal: every call raises it at once.
                    assert not settled(producer.begin_transaction)
                    continue
                transact(producer)
                assert cluster.transactions.diary[-1][0] == "commit"
