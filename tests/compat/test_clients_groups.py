"""Groups of other consumers: protocol upgrades, and committed offsets after a restart."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, TopicPartition

from tests.compat.brokers import checked_broker
from tests.compat.clients import TIMEOUT_S, Sent, write
from tests.compat.judges import CONFLUENT
from tests.compat.topics import admin_of, create_topic

POLL_S = 0.05
SETTINGS = {
    "group.initial.rebalance.delay.ms": 100,
    "group.min.session.timeout.ms": 1_000,
}


@contextmanager
def members(servers: str, count: int, **settings: str | int | bool) -> Iterator[list[Consumer]]:
    with ExitStack() as opened:
        yield [opened.enter_context(closing(member(servers, **settings))) for _ in range(count)]


def member(servers: str, **settings: str | int | bool) -> Consumer:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    fixed: dict[str, str | int | bool] = {
        "bootstrap.servers": servers,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    return Consumer({**fixed, **names})


def settle(consumers: Sequence[Consumer], wanted: Callable[[list[int]], bool]) -> None:
    """Poll until each has the wanted number of partitions."""
    until_s = time.monotonic() + TIMEOUT_S
    while True:
        for consumer in consumers:
            consumer.poll(POLL_S)
        owned = [sorted(each.partition for each in c.assignment()) for c in consumers]
        if wanted([len(each) for each in owned]):
            assert sorted(number for each in owned for number in each) == [0, 1, 2, 3]
            return
        assert time.monotonic() < until_s, owned


def shares(*wanted: int) -> Callable[[list[int]], bool]:
    return lambda counts: sorted(counts) == sorted(wanted)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_live_group_is_upgraded_one_consumer_at_a_time(topic: str, strategy: str) -> None:
    """NG-10: both protocols in one group, then only the consumer protocol."""
    classic: dict[str, str | int | bool] = {
        "group_id": "a",
        "partition_assignment_strategy": strategy,
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 500,
    }
    with checked_broker(SETTINGS) as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, topic, partitions=4)
        with ExitStack() as opened:
            old = [opened.enter_context(closing(member(servers, **classic))) for _ in range(2)]
            for consumer in old:
                consumer.subscribe([topic])
            settle(old, shares(2, 2))
            new = opened.enter_context(
                closing(member(servers, group_id="a", group_protocol="consumer"))
            )
            new.subscribe([topic])
            settle([*old, new], shares(1, 1, 2))
            for consumer in old:
                consumer.close()
            settle([new], shares(4))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_live_group_is_downgraded_to_the_classic_protocol(topic: str, strategy: str) -> None:
    """NG-10: a classic member joins, the consumer protocol's members leave, others join."""
    classic: dict[str, str | int | bool] = {
        "group_id": "a",
        "partition_assignment_strategy": strategy,
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 500,
    }
    with checked_broker(SETTINGS) as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, topic, partitions=4)
        with (
            members(servers, 1, group_id="a", group_protocol="consumer") as new,
            members(servers, 2, **classic) as old,
        ):
            new[0].subscribe([topic])
            settle(new, shares(4))
            old[0].subscribe([topic])
            settle([*new, old[0]], shares(2, 2))
            new[0].close()
            settle(old[:1], shares(4))
            old[1].subscribe([topic])
            settle(old, shares(2, 2))
            admin = admin_of(servers)
            listed = admin.list_consumer_groups().result(TIMEOUT_S)
            assert [each.type for each in listed.valid] == [ConsumerGroupType.CLASSIC]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_committed_offsets_survive_a_restart(topic: str, protocol: str, end: str) -> None:
    with checked_broker(SETTINGS) as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, topic, partitions=4)
        write(CONFLUENT, servers, topic, [Sent(value=b"%d" % n) for n in range(10)])
        place = TopicPartition(topic, 0)
        with closing(member(servers, group_id="a", group_protocol=protocol)) as consumer:
            consumer.subscribe([topic])
            settle([consumer], shares(4))
            mark = TopicPartition(topic, 0, 7, "so far")
            consumer.commit(offsets=[mark], asynchronous=False)
            broker.stop() if end == "stop" else broker.kill()
            broker.start()
            (found,) = consumer.committed([place], timeout=TIMEOUT_S)
            assert (found.offset, found.metadata) == (7, "so far")
        with closing(member(servers, group_id="a", group_protocol=protocol)) as consumer:
            consumer.subscribe([topic])
            message = None
            while message is None:
                message = consumer.poll(POLL_S)
            assert message.offset() == 7
