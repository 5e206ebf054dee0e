"""A mirror between two clusters that have different TLS and SASL settings."""

from collections.abc import Iterator

import pytest

from headwater.client import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from headwater.mirror.mirror import Mirror
from headwater.mirror.mirror_options import mirror_options
from tests.secured_broker import SecuredBroker, secured_broker
from tests.unit.mirror.test_mirror import DELIVERIES, in_this_process

COUNT = 100
TIMEOUT_S = 60.0
PLACE = TopicPartition("tea", 0)


@pytest.fixture(scope="module")
def clusters(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[SecuredBroker, SecuredBroker]]:
    with (
        secured_broker(tmp_path_factory.mktemp("west")) as west,
        secured_broker(tmp_path_factory.mktemp("east")) as east,
    ):
        with Admin(west.client) as admin, Producer(west.client) as producer:
            admin.create_topic("tea", partitions=1)
            for number in range(COUNT):
                producer.send("tea", b"%d" % number, partition=0)
            producer.flush(TIMEOUT_S)
            admin.alter_group_offsets("drinkers", {PLACE: OffsetAndMetadata(40)})
        yield west, east


@DELIVERIES
def test_records_and_groups_are_mirrored_between_secured_clusters(
    clusters: tuple[SecuredBroker, SecuredBroker], delivery: str
) -> None:
    west, east = clusters
    options = mirror_options(
        west.servers,
        east.servers,
        topics="tea",
        alias=delivery,
        delivery=delivery,
        source_file=west.login,
        target_file=east.login,
    )
    counts = Mirror(options, in_this_process).run(once=True)
    assert counts.records == COUNT
    copy = TopicPartition(f"{delivery}.tea", 0)
    reading = {**east.client, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    found: list[bytes | None] = []
    with Consumer(reading) as consumer:
        consumer.assign([copy])
        while len(found) < COUNT:
            found += [each.value for each in consumer.poll(TIMEOUT_S)]
    assert found == [b"%d" % number for number in range(COUNT)]
    with Admin(east.client) as admin:
        assert admin.list_group_offsets("drinkers")[copy].offset == 40
