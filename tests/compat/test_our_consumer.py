"""Our consumer with our broker and librdkafka's records, and in one group with librdkafka."""

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing

import confluent_kafka
import pytest

from headwater.client import (
    Admin,
    Consumer,
    ConsumerRecord,
    OffsetAndMetadata,
    RebalanceListener,
    TopicPartition,
    aio,
)
from headwater.client.errors import (
    CommitFailed,
    IllegalState,
    InvalidGroupId,
    NoOffsetForPartition,
    OffsetOutOfRange,
    SerializationFailed,
    WokenUp,
)
from headwater.records.batch_header import TimestampType
from headwater.testing import EmbeddedBroker
from tests.compat.brokers import checked_broker
from tests.compat.clients import CODECS, TIMEOUT_S, Sending, Sent, write
from tests.compat.judges import CONFLUENT
from tests.compat.topics import create_topic

SETTINGS = {
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.heartbeat.interval.ms": 5_000,
}
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@pytest.fixture(scope="module")
def group_broker() -> Iterator[EmbeddedBroker]:
    with checked_broker({"group.min.session.timeout.ms": 1_000}) as broker:
        yield broker


@pytest.fixture
def servers(group_broker: EmbeddedBroker) -> str:
    return group_broker.bootstrap_servers


def until(done: Callable[[], bool], *steps: Callable[[], object]) -> None:
    """Take the steps in turn until it is done."""
    limit_s = time.monotonic() + TIMEOUT_S
    while not done():
        assert time.monotonic() < limit_s, "waited in vain"
        for step in steps:
            step()


def take(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    until(lambda: len(records) >= count, lambda: records.extend(consumer.poll(0.2)))
    assert len(records) == count
    return records


def values(records: list[ConsumerRecord]) -> list[object]:
    return [record.value for record in records]


def fill(servers: str, topic: str, count: int, *, partitions: int = 1, codec: str = "none") -> None:
    create_topic(servers, topic, partitions=partitions)
    sent = [Sent(key=b"%d" % n, value=b"v%d" % n, partition=n % partitions) for n in range(count)]
    write(CONFLUENT, servers, topic, sent, Sending(codec=codec))


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_librdkafka_are_read_with_every_codec(
    servers: str, topic: str, codec: str
) -> None:
    create_topic(servers, topic)
    sent = [
        Sent(key=b"k", value=b"v" * 500, headers=(("h", b"1"), ("n", None)), timestamp_ms=1_000),
        Sent(key=None, value=None),
        Sent(key=b"", value=b""),
    ]
    write(CONFLUENT, servers, topic, sent, Sending(codec=codec))
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        first, second, third = take(consumer, 3)
    assert first[:8] == (
        topic,
        0,
        0,
        1_000,
        TimestampType.CREATE_TIME,
        b"k",
        b"v" * 500,
        (("h", b"1"), ("n", None)),
    )
    assert (second.key, second.value, second.headers) == (None, None, ())
    assert (third.key, third.value, third.offset) == (b"", b"", 2)


def test_polls_are_bounded_and_seeks_go_anywhere(servers: str, topic: str) -> None:
    fill(servers, topic, 25)
    place = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=servers, max_poll_records=10) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning()
        assert consumer.position(place) == 0
        assert [record.offset for record in take(consumer, 10)] == list(range(10))
        assert consumer.position(place) == 10
        consumer.seek(place, 20)
        assert [record.offset for record in take(consumer, 5)] == list(range(20, 25))
        assert consumer.current_lag(place) == 0
        consumer.seek_to_end([place])
        assert consumer.position(place) == 25
        assert consumer.poll(0.1) == []


def test_paused_partition_returns_nothing_and_loses_nothing(servers: str, topic: str) -> None:
    fill(servers, topic, 20, partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Consumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", max_poll_records=3
    ) as consumer:
        consumer.assign([first, second])
        until(lambda: bool(consumer.poll(0.2)))
        consumer.pause([first])
        assert consumer.paused() == {first}
        position = consumer.position(first)
        until(lambda: consumer.position(second) == 10, lambda: consumer.poll(0.1))
        assert consumer.poll(0.1) == []
        assert consumer.position(first) == position
        consumer.resume([first])
        until(lambda: consumer.position(first) == 10, lambda: consumer.poll(0.1))


def test_offsets_by_edge_and_by_timestamp(servers: str, topic: str) -> None:
    create_topic(servers, topic, partitions=2)
    sent = [Sent(value=b"x", timestamp_ms=1_000 * n) for n in range(1, 6)]
    write(CONFLUENT, servers, topic, sent)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Consumer(bootstrap_servers=servers) as consumer:
        assert consumer.beginning_offsets([first, second]) == {first: 0, second: 0}
        assert consumer.end_offsets([first, second]) == {first: 5, second: 0}
        found = consumer.offsets_for_times({first: 2_500, second: 0})
        assert found[second] is None
        where = found[first]
        assert where is not None
        assert (where.offset, where.timestamp) == (2, 3_000)
        assert consumer.partitions_for(topic) == [0, 1]


def test_without_a_reset_policy_a_missing_position_is_an_error(servers: str, topic: str) -> None:
    fill(servers, topic, 3)
    place = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=servers, group_id=topic, auto_offset_reset="none") as consumer:
        consumer.assign([place])
        with pytest.raises(NoOffsetForPartition):
            until(lambda: False, lambda: consumer.poll(0.2))
        consumer.seek(place, 99)
        with pytest.raises(OffsetOutOfRange):
            until(lambda: False, lambda: consumer.poll(0.2))
        consumer.seek(place, 1)
        assert [record.offset for record in take(consumer, 2)] == [1, 2]


def test_position_out_of_range_is_reset_by_the_policy(servers: str, topic: str) -> None:
    fill(servers, topic, 3)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), 99)
        assert [record.offset for record in take(consumer, 3)] == [0, 1, 2]


def test_table_has_the_fields_of_the_records(servers: str, topic: str) -> None:
    fill(servers, topic, 20, partitions=2, codec="zstd")
    places = [TopicPartition(topic, number) for number in range(2)]
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(places)
        expected = sorted(take(consumer, 20))
        consumer.seek_to_beginning()
        rows: list[dict[str, object]] = []
        until(
            lambda: len(rows) == 20,
            lambda: rows.extend(consumer.poll_table(0.2, max_records=7).to_pylist()),
        )
        assert consumer.poll_table(0).num_rows == 0
    got = sorted((row["partition"], row["offset"], row["key"], row["value"]) for row in rows)
    assert got == [(r.partition, r.offset, r.key, r.value) for r in expected]
    assert {row["topic"] for row in rows} == {topic}


def test_record_that_cannot_be_deserialized_is_returned_again_until_skipped(
    servers: str, topic: str
) -> None:
    create_topic(servers, topic)
    write(CONFLUENT, servers, topic, [Sent(value=each) for each in (b"1", b"x", b"3")])
    place = TopicPartition(topic, 0)
    with Consumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", value_deserializer=int
    ) as consumer:
        consumer.assign([place])
        assert values(take(consumer, 1)) == [1]
        for _ in range(2):
            with pytest.raises(SerializationFailed, match="at offset 1"):
                consumer.poll(TIMEOUT_S)
        assert consumer.position(place) == 1
        consumer.seek(place, 2)
        assert values(take(consumer, 1)) == [3]


def test_group_methods_need_a_group_and_assign_excludes_subscribe(servers: str, topic: str) -> None:
    with Consumer(bootstrap_servers=servers) as alone:
        with pytest.raises(InvalidGroupId):
            alone.subscribe([topic])
        with pytest.raises(InvalidGroupId):
            alone.commit()
        alone.assign([TopicPartition(topic, 0)])
        with pytest.raises(IllegalState):
            alone.seek(TopicPartition(topic, 1), 0)
    with Consumer(bootstrap_servers=servers, group_id=topic) as member:
        member.subscribe([topic])
        with pytest.raises(IllegalState):
            member.assign([TopicPartition(topic, 0)])


def test_another_thread_can_end_a_poll(servers: str, topic: str) -> None:
    with Consumer(bootstrap_servers=servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        waker = threading.Thread(target=consumer.wakeup)
        waker.start()
        with pytest.raises(WokenUp):
            consumer.poll(TIMEOUT_S)
        waker.join()


class Listener(RebalanceListener):
    """Records its callbacks."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[int]]] = []

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self._tell("assigned", partitions)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self._tell("revoked", partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self._tell("lost", partitions)

    def _tell(self, what: str, partitions: list[TopicPartition]) -> None:
        self.told.append((what, [each.partition for each in partitions]))


@PROTOCOLS
def test_group_continues_where_it_committed(servers: str, topic: str, protocol: str) -> None:
    fill(servers, topic, 10)
    place = TopicPartition(topic, 0)
    settings = {
        "bootstrap.servers": servers,
        "group.id": topic,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    with Consumer({**settings, "max.poll.records": 4}) as consumer:
        consumer.subscribe([topic])
        take(consumer, 4)
        assert consumer.committed([place]) == {}
        consumer.commit()
        take(consumer, 4)
        outcomes: list[object] = []
        consumer.commit_async(
            {place: OffsetAndMetadata(6, "note")}, lambda *told: outcomes.append(told)
        )
        until(lambda: bool(outcomes), lambda: consumer.poll(0.05))
        assert outcomes == [({place: OffsetAndMetadata(6, "note")}, None)]
        assert consumer.committed([place]) == {place: OffsetAndMetadata(6, "note")}
    with Consumer(settings) as consumer:
        consumer.subscribe([topic])
        assert [record.offset for record in take(consumer, 4)] == [6, 7, 8, 9]


@PROTOCOLS
def test_auto_commit_commits_polled_records_at_close(
    servers: str, topic: str, protocol: str
) -> None:
    fill(servers, topic, 10)
    settings = {
        "bootstrap.servers": servers,
        "group.id": topic,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "max.poll.records": 7,
    }
    listener = Listener()
    with Consumer(settings) as consumer:
        consumer.subscribe([topic], listener=listener)
        take(consumer, 7)
    assert listener.told == [("assigned", [0]), ("revoked", [0])]
    with Consumer(settings) as consumer:
        consumer.subscribe([topic])
        assert [record.offset for record in take(consumer, 3)] == [7, 8, 9]


def test_auto_commit_ignores_partitions_never_polled(servers: str, topic: str) -> None:
    fill(servers, topic, 10)
    place = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=servers, group_id=topic) as consumer:
        consumer.assign([place])
        assert consumer.position(place) == 10
        consumer.commit({place: 4})
    with Consumer(bootstrap_servers=servers, group_id=topic) as consumer:
        assert consumer.committed([place])[place].offset == 4


def share(consumers: Sequence[Consumer], *wanted: int) -> None:
    """Poll until the partitions are assigned in these numbers."""
    until(
        lambda: sorted(len(each.assignment()) for each in consumers) == sorted(wanted),
        *[lambda each=each: each.poll(0.05) for each in consumers],
    )


STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_members_share_a_topic_and_take_over_from_leavers(
    servers: str, topic: str, strategy: str
) -> None:
    create_topic(servers, topic, partitions=4)
    settings = {
        "bootstrap.servers": servers,
        "group.id": topic,
        "partition.assignment.strategy": strategy,
        "heartbeat.interval.ms": 100,
    }
    listener = Listener()
    with ExitStack() as opened:
        first = opened.enter_context(Consumer(settings))
        first.subscribe([topic], listener=listener)
        share([first], 4)
        second = Consumer(settings)
        second.subscribe([topic])
        share([first, second], 2, 2)
        second.close()
        share([first], 4)
    given_up = [len(each) for what, each in listener.told if what == "revoked"]
    # Cooperative members give up only what another gets; the last time is the close.
    assert given_up == ([2, 4] if strategy == "cooperative-sticky" else [4, 2, 4])
    assert not [each for each in listener.told if each[0] == "lost"]


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
@pytest.mark.parametrize("leads", ["ours", "theirs"])
def test_librdkafka_and_our_consumer_share_a_classic_group(
    servers: str, topic: str, strategy: str, leads: str
) -> None:
    """The first member leads and assigns, and the other understands it."""
    create_topic(servers, topic, partitions=4)
    settings: dict[str, str | int] = {
        "bootstrap.servers": servers,
        "group.id": topic,
        "partition.assignment.strategy": strategy,
        "heartbeat.interval.ms": 100,
        "auto.offset.reset": "earliest",
    }
    with ExitStack() as opened:
        ours = opened.enter_context(Consumer(settings))
        theirs = opened.enter_context(closing(confluent_kafka.Consumer(settings)))
        joins: list[Callable[[], object]] = [
            lambda: ours.subscribe([topic]),
            lambda: theirs.subscribe([topic]),
        ]
        polls: list[Callable[[], object]] = [lambda: ours.poll(0.05), lambda: theirs.poll(0.05)]
        order = (0, 1) if leads == "ours" else (1, 0)
        joins[order[0]]()
        until(lambda: len(ours.assignment()) + len(theirs.assignment()) == 4, polls[order[0]])
        joins[order[1]]()
        until(
            lambda: len(ours.assignment()) == len(theirs.assignment()) == 2,
            *polls,
        )
        theirs_have = {each.partition for each in theirs.assignment()}
        ours_have = {each.partition for each in ours.assignment()}
        assert sorted(theirs_have | ours_have) == [0, 1, 2, 3]


@pytest.mark.slow
def test_librdkafka_and_our_consumer_share_a_consumer_group(servers: str, topic: str) -> None:
    create_topic(servers, topic, partitions=4)
    settings: dict[str, str | int] = {
        "bootstrap.servers": servers,
        "group.id": topic,
        "group.protocol": "consumer",
    }
    with (
        Consumer(settings) as ours,
        closing(confluent_kafka.Consumer(settings)) as theirs,
    ):
        ours.subscribe([topic])
        theirs.subscribe([topic])
        until(
            lambda: len(ours.assignment()) == len(theirs.assignment()) == 2,
            lambda: ours.poll(0.05),
            lambda: theirs.poll(0.05),
        )


def test_static_member_returns_without_a_rebalance(servers: str, topic: str) -> None:
    """GR-14."""
    create_topic(servers, topic, partitions=4)
    settings: dict[str, str | int] = {
        "bootstrap.servers": servers,
        "group.id": topic,
        "heartbeat.interval.ms": 100,
    }
    listener = Listener()
    with Consumer(settings, group_instance_id="a") as stays:
        stays.subscribe([topic], listener=listener)
        with Consumer(settings, group_instance_id="b") as leaves:
            leaves.subscribe([topic])
            share([stays, leaves], 2, 2)
            before = leaves.assignment()
        told = list(listener.told)
        with Consumer(settings, group_instance_id="b") as back:
            back.subscribe([topic])
            until(lambda: back.assignment() == before, lambda: back.poll(0.05))
            stays.poll(0.3)
        assert listener.told == told


def test_member_that_exceeds_max_poll_interval_loses_its_partitions_and_gets_them_back(
    servers: str, topic: str
) -> None:
    create_topic(servers, topic, partitions=2)
    settings: dict[str, str | int] = {
        "bootstrap.servers": servers,
        "group.id": topic,
        "heartbeat.interval.ms": 100,
    }
    listener = Listener()
    with (
        Consumer(settings, max_poll_interval_ms=1_000) as sleeper,
        Consumer(settings) as other,
    ):
        sleeper.subscribe([topic], listener=listener)
        share([sleeper], 2)
        other.subscribe([topic])
        share([other], 2)
        until(lambda: ("lost", [0, 1]) in listener.told, lambda: sleeper.poll(0.05))
        share([sleeper, other], 1, 1)


@PROTOCOLS
def test_pattern_finds_topics_that_are_created_later(
    servers: str, topic: str, protocol: str
) -> None:
    create_topic(servers, f"{topic}-a")
    with Consumer(
        bootstrap_servers=servers,
        group_id=topic,
        group_protocol=protocol,
        metadata_max_age_ms=200,
        heartbeat_interval_ms=100,
    ) as consumer:
        pattern = re.compile(rf"{topic}-.*") if protocol == "classic" else re.compile(topic)
        consumer.subscribe(pattern=pattern)
        share([consumer], 1)
        create_topic(servers, f"{topic}-b")
        until(
            lambda: {each.topic for each in consumer.assignment()} == {f"{topic}-a", f"{topic}-b"},
            lambda: consumer.poll(0.05),
        )
        assert consumer.subscription() == {f"{topic}-a", f"{topic}-b"}


def test_in_a_consumer_group_the_broker_matches_a_pattern(servers: str, topic: str) -> None:
    create_topic(servers, f"{topic}-a", partitions=2)
    with Consumer(bootstrap_servers=servers, group_id=topic, group_protocol="consumer") as consumer:
        consumer.subscribe(pattern=f"{topic}-[a-z]")
        share([consumer], 2)
        assert consumer.subscription() == {f"{topic}-a"}


def test_subscribed_topic_is_read_once_it_is_created(servers: str, topic: str) -> None:
    with Consumer(
        bootstrap_servers=servers,
        group_id=topic,
        auto_offset_reset="earliest",
        allow_auto_create_topics=False,
        heartbeat_interval_ms=100,
    ) as consumer:
        consumer.subscribe([topic])
        until(lambda: consumer.group_metadata().generation_id > 0, lambda: consumer.poll(0.05))
        fill(servers, topic, 3)
        take(consumer, 3)


@pytest.mark.parametrize("leave", [Consumer.unsubscribe, lambda consumer: consumer.subscribe([])])
def test_unsubscribing_leaves_the_group(
    servers: str, topic: str, leave: Callable[[Consumer], object]
) -> None:
    create_topic(servers, topic, partitions=2)
    settings = {"bootstrap.servers": servers, "group.id": topic, "heartbeat.interval.ms": 100}
    with Consumer(settings) as first, Consumer(settings) as second:
        first.subscribe([topic])
        second.subscribe([topic])
        share([first, second], 1, 1)
        leave(first)
        assert first.assignment() == frozenset()
        share([second], 2)
        first.assign([TopicPartition(topic, 0)])
        assert first.assignment() == {TopicPartition(topic, 0)}


def test_asyncio_consumer_works_alike(servers: str, topic: str) -> None:
    fill(servers, topic, 10)
    place = TopicPartition(topic, 0)

    class Listener(RebalanceListener):
        async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(0)
            assigned.extend(partitions)

    assigned: list[TopicPartition] = []

    async def read() -> list[int]:
        async with aio.Consumer(
            bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe([topic], listener=Listener())
            found: list[int] = []
            async with asyncio.timeout(TIMEOUT_S):
                async for record in consumer:
                    found.append(record.offset)
                    if len(found) == 10:
                        break
                await consumer.commit()
                assert (await consumer.committed([place]))[place].offset == 10
                assert await consumer.position(place) == 10
                assert await consumer.end_offsets([place]) == {place: 10}
                assert (await consumer.poll_table(0)).num_rows == 0
            return found

    assert asyncio.run(read()) == list(range(10))
    assert assigned == [place]


def test_restarted_broker_is_found_again(topic: str) -> None:
    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        fill(servers, topic, 5)
        with Consumer(
            bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe([topic])
            take(consumer, 5)
            broker.restart()
            write(CONFLUENT, servers, topic, [Sent(value=b"after")])
            assert [record.value for record in take(consumer, 1)] == [b"after"]
            consumer.commit()


def test_close_ends_in_time_even_without_a_broker(topic: str) -> None:
    with EmbeddedBroker() as broker:
        fill(broker.bootstrap_servers, topic, 5)
        consumer = Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id=topic,
            auto_offset_reset="earliest",
        )
        consumer.subscribe([topic])
        take(consumer, 5)
        broker.kill()
        consumer.close(timeout=0.5)
        consumer.close()


@PROTOCOLS
def test_expired_member_cannot_commit_even_if_the_group_is_empty(
    servers: str, topic: str, protocol: str
) -> None:
    """Other members may have read on meanwhile, and left."""
    fill(servers, topic, 3)
    place = TopicPartition(topic, 0)
    with Consumer(
        bootstrap_servers=servers,
        group_id=topic,
        group_protocol=protocol,
        max_poll_interval_ms=200,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        consumer.subscribe([topic])
        take(consumer, 3)
        with Admin(bootstrap_servers=servers) as admin:
            until(lambda: not admin.describe_groups([topic])[topic].members)
            told: list[object] = []
            consumer.commit_async({place: 2}, lambda _, error: told.append(error))
            with pytest.raises(CommitFailed):
                consumer.commit()
            assert admin.list_group_offsets(topic) == {}
        # A poll makes it a member again.
        take(consumer, 3)
        assert [type(error) for error in told] == [CommitFailed]
        consumer.commit()
        assert consumer.committed([place])[place].offset == 3
