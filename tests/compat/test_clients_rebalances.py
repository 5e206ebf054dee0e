"""Rebalances with other clients: members join, leave, crash, and return.

The example: a topic of four partitions, a group of two members that
get two each, a group of four that get one each, and a fifth that is idle until one of them dies.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace

import pytest

from headwater.common.settings.setting_types import Value
from headwater.testing import EmbeddedBroker
from tests.compat.brokers import checked_broker, requests_answered
from tests.compat.clients import Deadline, Sent, write
from tests.compat.group_members import MEMBERS, Member, MortalMember, Polled, settle
from tests.compat.joining import Joining
from tests.compat.judges import CONFLUENT
from tests.compat.topics import create_topic

SETTINGS: Mapping[str, Value] = {
    "group.initial.rebalance.delay.ms": 100,
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 300,
    "headwater.metrics.listener": "127.0.0.1:0",
}
STRATEGIES = [
    pytest.param("confluent-kafka", "range", "classic"),
    pytest.param("confluent-kafka", "roundrobin", "classic", marks=pytest.mark.slow),
    pytest.param("confluent-kafka", "cooperative-sticky", "classic"),
    pytest.param("confluent-kafka", "uniform", "consumer"),
    pytest.param("confluent-kafka", "range", "consumer", marks=pytest.mark.slow),
    pytest.param("kafka-python", "range", "classic", marks=pytest.mark.slow),
    pytest.param("kafka-python", "roundrobin", "classic", marks=pytest.mark.slow),
    pytest.param("kafka-python", "sticky", "classic"),
    pytest.param("kafka-python", "cooperative-sticky", "classic", marks=pytest.mark.slow),
    pytest.param("aiokafka", "range", "classic", marks=pytest.mark.slow),
    pytest.param("aiokafka", "roundrobin", "classic"),
    pytest.param("aiokafka", "sticky", "classic", marks=pytest.mark.slow),
    pytest.param("headwater", "range", "classic"),
    pytest.param("headwater", "roundrobin", "classic", marks=pytest.mark.slow),
    pytest.param("headwater", "sticky", "classic", marks=pytest.mark.slow),
    pytest.param("headwater", "cooperative-sticky", "classic"),
    pytest.param("headwater", "uniform", "consumer"),
    pytest.param("headwater", "range", "consumer", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """A broker with short session timeouts."""
    with checked_broker(SETTINGS) as broker:
        yield broker


@contextmanager
def opening() -> Iterator[Callable[[str, Joining], Member]]:
    """Members that are closed in the end."""
    with ExitStack() as opened:
        yield lambda kind, joining: opened.enter_context(closing(MEMBERS[kind](joining)))


@contextmanager
def opening_many() -> Iterator[Callable[[str, Joining], Polled]]:
    """The same for many members.

    Members of kafka-python are processes of their own: when one thread polls several in turn, they
    lose responses that came while others were polled, with Apache Kafka too.
    """

    def open_one(kind: str, joining: Joining) -> Polled:
        return MortalMember(kind, joining) if kind == "kafka-python" else MEMBERS[kind](joining)

    with ExitStack() as opened:
        yield lambda kind, joining: opened.enter_context(closing(open_one(kind, joining)))


@pytest.mark.parametrize(("kind", "strategy", "protocol"), STRATEGIES)
def test_of_five_members_one_is_idle_until_another_dies(
    broker: EmbeddedBroker, topic: str, kind: str, strategy: str, protocol: str
) -> None:
    """GR-1 to GR-13, NG-1 to NG-6: on join, on leave, and on a crash."""
    servers = broker.bootstrap_servers
    create_topic(servers, topic, partitions=4)

    def joining(group: str) -> Joining:
        return Joining(
            servers=servers,
            topic=topic,
            group=f"{group}-{topic}",
            strategy=strategy,
            protocol=protocol,
            # Five processes on a busy machine may be silent for a while.
            session_ms=9_000 if kind == "kafka-python" else 3_000,
        )

    with opening_many() as member:
        first = [member(kind, joining("a")) for _ in range(2)]
        settle(first, 2, 2)
        first[0].close()
        settle(first[1:], 4)
    with opening_many() as member, closing(MortalMember(kind, joining("b"))) as mortal:
        second = [member(kind, joining("b")) for _ in range(3)]
        settle([mortal, *second], 1, 1, 1, 1)
        second.append(member(kind, joining("b")))
        settle([mortal, *second], 0, 1, 1, 1, 1)
        mortal.kill()
        settle(second, 1, 1, 1, 1)


@pytest.mark.parametrize(
    ("kind", "protocol"),
    [
        ("confluent-kafka", "classic"),
        ("confluent-kafka", "consumer"),
        ("kafka-python", "classic"),
        ("aiokafka", "classic"),
        ("headwater", "classic"),
        ("headwater", "consumer"),
    ],
)
def test_static_member_returns_to_its_partitions_without_a_rebalance(
    broker: EmbeddedBroker, topic: str, kind: str, protocol: str
) -> None:
    """GR-14, NG-7."""
    create_topic(broker.bootstrap_servers, topic, partitions=4)

    def joining(instance: str) -> Joining:
        return Joining(
            servers=broker.bootstrap_servers,
            topic=topic,
            group=f"static-{topic}",
            instance=instance,
            strategy="uniform" if protocol == "consumer" else "range",
            protocol=protocol,
            session_ms=30_000,
        )

    with opening_many() as member:
        stays = member(kind, joining("one"))
        leaves = member(kind, joining("two"))
        settle([stays, leaves], 2, 2)
        kept, owned = stays.owned(), leaves.owned()
        leaves.close()
        joins = requests_answered(broker, "JoinGroup")
        comes = member(kind, joining("two"))
        settle([stays, comes], 2, 2)
        assert (stays.owned(), comes.owned()) == (kept, owned)
        # kafka-python was seen to join twice on a busy machine; the assignment shows it anyway.
        if protocol == "classic" and kind != "kafka-python":
            # Its own, and none of the other.
            assert requests_answered(broker, "JoinGroup") - joins == 1


@pytest.mark.parametrize("kind", MEMBERS)
def test_synchronous_and_asynchronous_commits_are_found(
    broker: EmbeddedBroker, topic: str, kind: str
) -> None:
    """GR-11, GR-12."""
    create_topic(broker.bootstrap_servers, topic)
    joining = Joining(servers=broker.bootstrap_servers, topic=topic, group=f"commits-{topic}")
    with opening() as member:
        first = member(kind, joining)
        settle([first], 1)
        assert first.committed(0) is None
        first.commit(0, 3, waits=True)
        assert first.committed(0) == 3
        first.commit(0, 5, waits=False)
        while first.committed(0) != 5:
            first.poll()


@pytest.mark.parametrize("kind", MEMBERS)
def test_member_without_a_commit_starts_where_configured(
    broker: EmbeddedBroker, topic: str, kind: str
) -> None:
    """At the earliest record, at the latest, and where it seeks to by timestamp (LO-1, LO-2)."""
    servers = broker.bootstrap_servers
    create_topic(servers, topic)
    old = [Sent(value=b"%d" % n, timestamp_ms=1_700_000_000_000 + n) for n in range(6)]
    write(CONFLUENT, servers, topic, old)
    joining = Joining(servers=servers, topic=topic, group=f"earliest-{topic}")
    with opening() as member:
        first = member(kind, joining)
        assert arrived(first, 6) == [(0, offset) for offset in range(6)]
        first.seek(0, first.offset_at(0, 1_700_000_000_004))
        assert arrived(first, 2) == [(0, 4), (0, 5)]
        late = member(kind, replace(joining, group=f"latest-{topic}", reset="latest"))
        settle([late], 1)
        found: list[tuple[int, int]] = []
        deadline = Deadline("a record that came later")
        while not found:
            # When exactly it looked up the end of the log is not visible from here.
            deadline.check()
            write(CONFLUENT, servers, topic, [Sent(value=b"new")])
            found = late.poll()
        assert all(offset >= 6 for _, offset in found)


def arrived(member: Member, count: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    deadline = Deadline(f"{count} records")
    while len(found) < count:
        deadline.check(found)
        found += member.poll()
    return found
