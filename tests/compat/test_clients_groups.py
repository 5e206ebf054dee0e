"""Groups of foreign consumers: who gets what, and what was committed outlives everything."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.compat.brokers import checked_broker
from tests.compat.clients import PATIENCE_S, Sent, write
from tests.compat.judges import CONFLUENT
from tests.compat.topics import create_topic

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
    """Poll until each has as many partitions as is wanted."""
    until_s = time.monotonic() + PATIENCE_S
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


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_two_groups_share_out_a_topic_each_for_itself(topic: str, strategy: str) -> None:
    """GR-1 to GR-13: two get two each; of five one stands by, and steps in for one that leaves."""
    with checked_broker(SETTINGS) as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, topic, partitions=4)
        classic: dict[str, str | int | bool] = {
            "partition_assignment_strategy": strategy,
            "session_timeout_ms": 6_000,
        }
        with (
            members(servers, 2, group_id="a", **classic) as first,
            members(servers, 5, group_id="b", **classic) as second,
        ):
            for consumer in [*first, *second]:
                consumer.subscribe([topic])
            settle(first, shares(2, 2))
            settle(second, shares(0, 1, 1, 1, 1))
            leaving = next(each for each in second if each.assignment())
            leaving.close()
            settle([each for each in second if each is not leaving], shares(1, 1, 1, 1))


@pytest.mark.slow
def test_a_group_of_the_new_protocol_shares_out_a_topic(topic: str) -> None:
    """NG-1 to NG-3."""
    with checked_broker(SETTINGS) as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, topic, partitions=4)
        with members(servers, 2, group_id="a", group_protocol="consumer") as consumers:
            for consumer in consumers:
                consumer.subscribe([topic])
            settle(consumers, shares(2, 2))
            consumers[0].close()
            settle(consumers[1:], shares(4))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_live_group_is_upgraded_one_consumer_at_a_time(topic: str, strategy: str) -> None:
    """NG-10: both protocols in one group, then only the new one."""
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


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_was_committed_is_there_after_a_restart(topic: str, protocol: str, end: str) -> None:
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
            (found,) = consumer.committed([place], timeout=PATIENCE_S)
            assert (found.offset, found.metadata) == (7, "so far")
        with closing(member(servers, group_id="a", group_protocol=protocol)) as consumer:
            consumer.subscribe([topic])
            message = None
            while message is None:
                message = consumer.poll(POLL_S)
            assert message.offset() == 7
