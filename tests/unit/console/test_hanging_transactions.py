"""A hanging transaction, at a broker without verification, is found and aborted."""

import asyncio
from collections.abc import Iterator

import pytest

from headwater.client import Admin, Consumer, Producer, TopicPartition
from headwater.client.aio import Admin as AsyncAdmin
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from headwater.testing import EmbeddedBroker
from tests.console_process import TIMEOUT_S, ConsoleProcess

GHOST = 4711
PLACE = TopicPartition("haunted", 0)
UNREGISTERED = 11
"""The last version of Produce that does not add its partition to the transaction."""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    # By default, brokers verify transactions and reject such a batch (KIP-890).
    unverified = {"transaction.partition.verification.enable": False}
    with EmbeddedBroker(unverified) as broker:
        yield broker


def append_hanging_batch(bootstrap_servers: str) -> None:
    """Append an old batch of a transaction that no coordinator knows."""
    batch = build_batch(
        [Record(value=b"boo", timestamp=1_000)],
        producer_id=GHOST,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    data = PartitionProduceData(index=0, records=memoryview(batch))
    request = ProduceRequest(
        transactional_id="ghost",
        acks=-1,
        timeout_ms=10_000,
        topic_data=(TopicProduceData(name="haunted", partition_data=(data,)),),
    )

    async def send() -> ProduceResponse:
        async with AsyncAdmin(bootstrap_servers=bootstrap_servers) as admin:
            await admin.describe_log_dirs()
            return await admin._cluster.call(0, request, ProduceResponse, newest=UNREGISTERED)

    [topic] = asyncio.run(send()).responses
    assert [each.error_code for each in topic.partition_responses] == [ErrorCode.NONE]


def test_hanging_transaction_is_found_and_aborted(broker: EmbeddedBroker) -> None:
    """KIP-664."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic("haunted", partitions=1)
    with Producer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id="healthy"
    ) as healthy:
        healthy.init_transactions()
        healthy.begin_transaction()
        healthy.send("haunted", b"alive", timestamp=1_000).result(TIMEOUT_S)
        append_hanging_batch(broker.bootstrap_servers)
        with ConsoleProcess(broker.bootstrap_servers) as console:
            committed = console.api("/topics/haunted/records?committed=1")
            assert (committed["records"], committed["ended_early"]) == ([], False)
            assert len(console.api("/topics/haunted/records")["records"]) == 2
            found = console.api("/transactions")["waiting"]
            assert [(each["id"], each["hangs"]) for each in found] == [
                (None, True),
                ("healthy", False),
            ]
            assert found[0]["producer_id"] == GHOST
            page = console.get("/transactions").text
            assert "1 hanging transaction" in page
            fields = {"topic": "haunted", "partition": "0", "producer_id": str(GHOST)}
            assert console.post("/transactions/abort", fields).status == 400
            sure = {**fields, "confirm": str(GHOST)}
            assert console.post("/transactions/abort", sure).status == 303
            assert console.post("/transactions/abort", sure).status == 404
            assert "There are no hanging transactions." in console.get("/transactions").text
        healthy.commit_transaction()
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed"
    ) as consumer:
        consumer.assign([PLACE])
        consumer.seek_to_beginning()
        assert [each.value for each in consumer.poll(TIMEOUT_S)] == [b"alive"]
