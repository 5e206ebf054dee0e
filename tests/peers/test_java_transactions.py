"""Kafka's Java clients and tools in transactions with Headwater.

Only the Java producer supports transactions v2 (KIP-890): every end increments its epoch, and it
does not send AddPartitionsToTxn.
"""

import re

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.transaction.transaction_states import (
    TransactionState as TransactionStates,
)
from headwater.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from headwater.protocol.messages.produce import ProduceResponse
from headwater.records.batch_building import build_batch
from tests.peers.apache_kafka import NODE_ID, run_class
from tests.peers.headwater_broker import HeadwaterBroker
from tests.peers.jars import KAFKA_4_1
from tests.peers.lab import Lab
from tests.peers.raw_client import RawClient
from tests.peers.scenarios.produce import produce
from tests.peers.test_kafka_tools import TOOLS, create, run

TIMEOUT_S = 30
EOF_ERROR = -191


def described(headwater: HeadwaterBroker, transactional_id: str) -> TransactionState:
    with RawClient(headwater.bootstrap_servers) as client:
        asked = DescribeTransactionsRequest(transactional_ids=(transactional_id,))
        answer = client.ask(asked, 0)
    assert isinstance(answer, DescribeTransactionsResponse)
    return answer.transaction_states[0]


def committed(headwater: HeadwaterBroker, topic: str) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": headwater.bootstrap_servers,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    while True:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        error = message.error()
        if error is not None:
            assert error.code() == EOF_ERROR, error
            return values
        values.append(message.value() or b"")


def fill(headwater: HeadwaterBroker, topic: str, count: int) -> list[bytes]:
    create(headwater, topic)
    producer = Producer({"bootstrap.servers": headwater.bootstrap_servers})
    values = [b"%d" % number for number in range(count)]
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    return values


def test_performance_producer_increments_its_epoch_with_every_transaction(
    headwater: HeadwaterBroker,
) -> None:
    """TX-14."""
    create(headwater, "java-performance")
    run_class(
        KAFKA_4_1,
        f"{TOOLS}.ProducerPerformance",
        *("--topic", "java-performance", "--num-records", "3000", "--record-size", "100"),
        *("--throughput", "3000", "--transactional-id", "java-performance"),
        *("--transaction-duration-ms", "50"),
        "--producer-props",
        f"bootstrap.servers={headwater.bootstrap_servers}",
    )
    assert len(committed(headwater, "java-performance")) == 3000
    state = described(headwater, "java-performance")
    assert state.transaction_state == "CompleteCommit"
    assert state.producer_epoch > 3


def test_message_copier_copies_each_record_once_despite_aborts(
    headwater: HeadwaterBroker,
) -> None:
    """TX-11, TX-14: offsets and records of a transaction are committed together."""
    values = fill(headwater, "java-source", 2_000)
    create(headwater, "java-copy")
    said = run_class(
        KAFKA_4_1,
        f"{TOOLS}.TransactionalMessageCopier",
        *("--broker-list", headwater.bootstrap_servers),
        *("--input-topic", "java-source", "--input-partition", "0"),
        *("--output-topic", "java-copy", "--consumer-group", "java-copiers"),
        *("--transactional-id", "java-copier", "--transaction-size", "50"),
        *("--max-messages", "2000", "--enable-random-aborts", "--use-group-metadata"),
    )
    assert '"stage":"ShutdownComplete"' in said
    assert committed(headwater, "java-copy") == values
    state = described(headwater, "java-copier")
    # Forty commits at least, and each of them raises the epoch.
    assert state.producer_epoch >= 40


def test_kafka_transactions_lists_describes_and_aborts(headwater: HeadwaterBroker) -> None:
    """KIP-664: a hanging transaction is found and aborted manually."""
    topic, command = "java-tools", f"{TOOLS}.TransactionsCommand"
    create(headwater, topic)
    producer = Producer(
        {"bootstrap.servers": headwater.bootstrap_servers, "transactional.id": "java-tools"}
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(TIMEOUT_S)
    listed = run(headwater, command, "list")
    assert re.search(r"java-tools\s+\d+\s+\d+\s+Ongoing", listed), listed
    shown = run(headwater, command, "describe", "--transactional-id", "java-tools")
    assert re.search(r"Ongoing\s.*java-tools-0", shown), shown
    place = ("--topic", topic, "--partition", "0")
    writing = run(headwater, command, "describe-producers", *place)
    assert re.search(r"^\d+\s+0\s+-?\d+\s+0\s", writing, re.MULTILINE), writing
    run(headwater, command, "abort", *place, "--start-offset", "0")
    assert committed(headwater, topic) == []
    other = Producer(
        {"bootstrap.servers": headwater.bootstrap_servers, "transactional.id": "java-tools-2"}
    )
    other.init_transactions(TIMEOUT_S)
    other.begin_transaction()
    other.produce(topic, b"behind it", partition=0)
    other.commit_transaction(TIMEOUT_S)
    assert committed(headwater, topic) == [b"behind it"]


def test_kafka_transactions_fences_a_producer(headwater: HeadwaterBroker) -> None:
    topic = "java-terminated"
    create(headwater, topic)
    producer = Producer(
        {"bootstrap.servers": headwater.bootstrap_servers, "transactional.id": topic}
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(TIMEOUT_S)
    command = f"{TOOLS}.TransactionsCommand"
    run(headwater, command, "forceTerminateTransaction", "--transactionalId", topic)
    with pytest.raises(KafkaException):
        producer.commit_transaction(TIMEOUT_S)
    assert committed(headwater, topic) == []


def test_kafka_transactions_finds_and_aborts_a_hanging_transaction(
    headwater: HeadwaterBroker,
) -> None:
    """KIP-664: a transaction unknown to its coordinator, as before KIP-890."""
    lab = Lab("java-hanging", headwater.bootstrap_servers)
    topic, producer_id = lab.topic(), lab.producer_id()
    verify(headwater, "false")
    batch = build_batch(
        lab.records("never ended"),
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    request = produce(topic, batch, transactional_id="unknown")
    answer = lab.get(request, ProduceResponse, 10)
    verify(headwater, "true")
    assert not answer.responses[0].partition_responses[0].error_code
    refused = lab.get(
        produce(lab.topic("2"), batch, transactional_id="unknown"), ProduceResponse, 10
    )
    assert refused.responses[0].partition_responses[0].error_code is not ErrorCode.NONE
    lab.client.close()
    command = f"{TOOLS}.TransactionsCommand"
    found = run(headwater, command, "find-hanging", "--broker-id", str(NODE_ID))
    assert re.search(rf"^{topic}\s+0\s+{producer_id}\s", found, re.MULTILINE), found
    place = ("--topic", topic, "--partition", "0")
    run(headwater, command, "abort", *place, "--start-offset", "0")
    assert committed(headwater, topic) == []
    found = run(headwater, command, "find-hanging", "--broker-id", str(NODE_ID))
    assert topic not in found


def verify(headwater: HeadwaterBroker, value: str) -> None:
    """Disable or enable verification at runtime."""
    change = f"transaction.partition.verification.enable={value}"
    options = ("--entity-type", "brokers", "--entity-default", "--alter", "--add-config", change)
    run(headwater, "kafka.admin.ConfigCommand", *options)


def test_kafka_features_shows_finalized_features(headwater: HeadwaterBroker) -> None:
    said = run(headwater, f"{TOOLS}.FeatureCommand", "describe")
    for name, level in (("group.version", 1), ("transaction.version", 2)):
        assert re.search(rf"Feature: {name}\s.*FinalizedVersionLevel: {level}\s", said), said


def test_dump_tool_reads_coordinator_records(headwater: HeadwaterBroker) -> None:
    topic = "java-dumped"
    create(headwater, topic)
    producer = Producer(
        {"bootstrap.servers": headwater.bootstrap_servers, "transactional.id": "java-dumped"}
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"one", partition=0)
    settings = {"bootstrap.servers": headwater.bootstrap_servers, "group.id": "java-dumped"}
    consumer = Consumer(settings)
    place = TopicPartition(topic, 0, 7)
    producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), TIMEOUT_S)
    producer.commit_transaction(TIMEOUT_S)
    consumer.close()
    transactions = dumped(headwater, "__transaction_state", "--transaction-log-decoder")
    for state in ("EMPTY", "ONGOING", "PREPARE_COMMIT", "COMPLETE_COMMIT"):
        number = TransactionStates[state].value
        assert re.search(rf'java-dumped.*"transactionStatus":{number}\D', transactions), state
    offsets = dumped(headwater, "__consumer_offsets", "--offsets-decoder")
    assert re.search(r'"group":"java-dumped","topic":"java-dumped","partition":0', offsets)
    assert "endTxnMarker: COMMIT" in offsets


def dumped(headwater: HeadwaterBroker, topic: str, decoder: str) -> str:
    files = sorted(headwater.data.glob(f"{topic}-*/*.log"))
    filled = ",".join(str(path) for path in files if path.stat().st_size)
    return run_class(KAFKA_4_1, "kafka.tools.DumpLogSegments", "--files", filled, decoder)
