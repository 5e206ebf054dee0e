"""Mirrors between real brokers, with tasks that run in this process instead of Spark."""

import itertools
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pyarrow as pa
import pytest

from headwater.client import (
    Admin,
    ConfigResource,
    Consumer,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from headwater.client.admin.descriptions import ConfigEntry
from headwater.client.errors import KafkaError
from headwater.mirror.checkpoints import checkpoint_group
from headwater.mirror.copy_task import CopyTask, run_task
from headwater.mirror.mirror import Event, Mirror, MirrorCycle
from headwater.mirror.mirror_options import mirror_options
from headwater.mirror.task_assignment import (
    Copied,
    former_transactional_ids,
    task_of,
    transactional_id,
)
from headwater.testing import EmbeddedBroker

TIMEOUT_S = 60.0
DELIVERIES = pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[str, str]]:
    with EmbeddedBroker() as west, EmbeddedBroker() as east:
        yield west.bootstrap_servers, east.bootstrap_servers


@pytest.fixture
def topic() -> str:
    return f"tea-{uuid.uuid4().hex[:8]}"


def in_this_process(tasks: list[CopyTask]) -> list[Copied]:
    return [copied for task in tasks for copied in run_task(task)]


def mirrored(source: str, target: str, topics: str, **options: object) -> list[Event]:
    """Copy what is there and return the events."""
    told: list[Event] = []
    chosen = mirror_options(source, target, topics=topics, **options)  # type: ignore[arg-type]
    Mirror(chosen, in_this_process, on_event=told.append).run(once=True)
    return told


def fill(servers: str, topic: str, first: int, count: int, codec: str = "none") -> None:
    numbers = range(first, first + count)
    table = pa.table(
        {
            "key": [b"%d" % number for number in numbers],
            "value": [b"%d" % number for number in numbers],
            "timestamp": pa.array([1_700_000_000_000 + number for number in numbers], pa.int64()),
        }
    )
    with Producer(bootstrap_servers=servers, compression_type=codec) as producer:
        producer.send_table(topic, table).result(TIMEOUT_S)


def seen(servers: str, topic: str) -> list[tuple[int, int]]:
    """Values and timestamps of all partitions, sorted by value."""
    with Consumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        places = [TopicPartition(topic, each) for each in consumer.partitions_for(topic)]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        found = []
        while any(consumer.position(each) < ends[each] for each in places):
            found += [(int(each.value or b""), each.timestamp) for each in consumer.poll(1.0)]
    return sorted(found)


def expected(count: int) -> list[tuple[int, int]]:
    return [(number, 1_700_000_000_000 + number) for number in range(count)]


def settings_of(admin: Admin, topic: str) -> dict[str, ConfigEntry]:
    return admin.describe_configs([ConfigResource.topic(topic)])[ConfigResource.topic(topic)]


@DELIVERIES
def test_mirror_continues_where_the_last_one_ended(
    clusters: tuple[str, str], topic: str, delivery: str
) -> None:
    west, east = clusters
    with Admin(bootstrap_servers=west) as admin:
        admin.create_topic(topic, partitions=3)
    fill(west, topic, 0, 500, codec="zstd")
    mirrored(west, east, topic, delivery=delivery)
    fill(west, topic, 500, 300)
    told = mirrored(west, east, topic, delivery=delivery)
    assert seen(east, f"source.{topic}") == expected(800)
    assert [each["records"] for each in told if each["event"] == "progress"] == [300]


@DELIVERIES
def test_aborted_records_are_not_copied(
    clusters: tuple[str, str], topic: str, delivery: str
) -> None:
    west, east = clusters
    with Producer(bootstrap_servers=west, transactional_id=topic) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            producer.send(topic, b"%d" % number, timestamp=1_700_000_000_000 + number)
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    mirrored(west, east, topic, delivery=delivery)
    assert [value for value, _ in seen(east, f"source.{topic}")] == [0, 2, 4]


def test_partitions_and_configs_of_copies_are_synced(clusters: tuple[str, str], topic: str) -> None:
    west, east = clusters
    with Admin(bootstrap_servers=west) as original, Admin(bootstrap_servers=east) as there:
        configs = {"retention.ms": "12345678", "message.timestamp.type": "LogAppendTime"}
        original.create_topic(topic, partitions=1, configs=configs)
        mirrored(west, east, topic)
        copy = f"source.{topic}"
        assert settings_of(there, copy)["retention.ms"].value == "12345678"
        assert settings_of(there, copy)["message.timestamp.type"].value == "CreateTime"
        original.create_partitions({topic: 3})
        changes = {"retention.ms": None, "cleanup.policy": "compact"}
        original.alter_configs({ConfigResource.topic(topic): changes})
        fill(west, topic, 0, 90)
        mirrored(west, east, topic)
        assert len(there.describe_topics([copy])[copy].partitions) == 3
        assert settings_of(there, copy)["cleanup.policy"].value == "compact"
        assert settings_of(there, copy)["retention.ms"].is_default
    # The source broker's LogAppendTime, not the target broker's.
    assert seen(east, copy) == seen(west, topic)


@DELIVERIES
def test_group_continues_at_its_translated_offset(
    clusters: tuple[str, str], topic: str, delivery: str
) -> None:
    west, east = clusters
    with Admin(bootstrap_servers=west) as admin:
        admin.create_topic(topic, partitions=2)
    for first in range(0, 1_000, 100):
        fill(west, topic, first, 100)
        mirrored(west, east, topic, delivery=delivery, groups="missing")
    group = f"group-{topic}"
    settings = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with Consumer(bootstrap_servers=west, max_poll_records=123, **settings) as consumer:
        consumer.subscribe([topic])
        before: list[int] = []
        while len(before) < 369:
            before += [int(each.value or b"") for each in consumer.poll(TIMEOUT_S)]
        consumer.commit()
    mirrored(west, east, topic, delivery=delivery, groups=group)
    with Consumer(bootstrap_servers=east, isolation_level="read_committed", **settings) as consumer:
        consumer.subscribe([f"source.{topic}"])
        after: list[int] = []
        while len(after) < 1_000 - len(before):
            after += [int(each.value or b"") for each in consumer.poll(TIMEOUT_S)]
        assert sorted(before + after) == list(range(1_000))
        # It has members in the target now, so its offsets there are not overwritten.
        consumer.commit()
        told = mirrored(west, east, topic, delivery=delivery, groups=group)
    assert not [each for each in told if each["event"] == "group"]


def test_mirrors_in_both_directions_do_not_copy_copies(
    clusters: tuple[str, str], topic: str
) -> None:
    west, east = clusters
    pattern = f".*{topic}.*"
    for servers in clusters:
        fill(servers, topic, 0, 10)
    for _ in range(3):
        mirrored(west, east, pattern, alias="west")
        mirrored(east, west, pattern, alias="east")
    found = []
    for servers in clusters:
        with Admin(bootstrap_servers=servers) as admin:
            found.append([name for name in admin.list_topics() if topic in name])
    assert found == [[f"east.{topic}", topic], [topic, f"west.{topic}"]]


def test_identity_mirror_in_the_opposite_direction_is_rejected(
    clusters: tuple[str, str], topic: str
) -> None:
    west, east = clusters
    fill(west, topic, 0, 10)
    mirrored(west, east, topic, is_identity=True)
    with pytest.raises(MirrorCycle, match=f"{topic} was copied from the target cluster"):
        mirrored(east, west, topic, is_identity=True)
    assert len(seen(west, topic)) == 10
    with pytest.raises(MirrorCycle, match="the same cluster"):
        mirrored(west, west, topic, is_identity=True)


def test_no_topic_returns_through_a_third_cluster(clusters: tuple[str, str], topic: str) -> None:
    with EmbeddedBroker() as north:
        ring = [*clusters, north.bootstrap_servers]
        fill(ring[0], topic, 0, 10)
        for source, target in pairwise([*ring, ring[0]]):
            told = mirrored(source, target, f".*{topic}", alias="x")
        assert [each["event"] for each in told] == ["left out"]


def test_recreated_topic_is_copied_from_its_beginning(
    clusters: tuple[str, str], topic: str
) -> None:
    west, east = clusters
    with Admin(bootstrap_servers=west) as admin:
        fill(west, topic, 0, 50)
        mirrored(west, east, topic)
        admin.delete_topics([topic])
        fill(west, topic, 50, 10)
        mirrored(west, east, topic)
    assert seen(east, f"source.{topic}") == expected(60)


@DELIVERIES
def test_idle_topic_with_expired_checkpoints_continues_and_groups_are_synced(
    clusters: tuple[str, str], topic: str, delivery: str
) -> None:
    west, east = clusters
    copy, group = f"source.{topic}", f"group-{topic}"
    with Admin(bootstrap_servers=west) as original, Admin(bootstrap_servers=east) as there:
        notes = checkpoint_group(original.describe_cluster().cluster_id)
        for first in range(0, 500, 100):
            fill(west, topic, first, 100)
            mirrored(west, east, topic, delivery=delivery)
            if first >= 200:
                there.delete_group_offsets(notes, [TopicPartition(copy, 0)])
        place = TopicPartition(topic, 0)
        original.alter_group_offsets(group, {place: OffsetAndMetadata(450)})
        mirrored(west, east, topic, delivery=delivery, groups=group)
        moved = there.list_group_offsets(group)[TopicPartition(copy, 0)].offset
    assert seen(east, copy) == expected(500)
    with Consumer(bootstrap_servers=east, isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition(copy, 0)])
        consumer.seek(TopicPartition(copy, 0), moved)
        found: list[int] = []
        while len(found) < 50:
            found += [int(each.value or b"") for each in consumer.poll(TIMEOUT_S)]
    assert found == list(range(450, 500))


def test_run_numbers_continue_when_checkpoints_expire_during_a_mirror(
    clusters: tuple[str, str], topic: str
) -> None:
    west, east = clusters
    copy = TopicPartition(f"source.{topic}", 0)
    numbers: list[int | None] = []
    with Admin(bootstrap_servers=west) as original, Admin(bootstrap_servers=east) as there:
        notes = checkpoint_group(original.describe_cluster().cluster_id)

        def and_expire(tasks: list[CopyTask]) -> list[Copied]:
            copied = in_this_process(tasks)
            there.delete_group_offsets(notes, [copy])
            runs = [each.last_run for each in copied]
            numbers.extend(None if run is None else run.number for run in runs)
            if len(numbers) == 4:
                mirror.stop()
            fill(west, topic, 10 * len(numbers), 10)
            return copied

        fill(west, topic, 0, 10)
        options = mirror_options(west, east, topics=topic, delivery="exactly-once", groups=None)
        mirror = Mirror(options, and_expire)
        mirror.run()
    assert numbers == [0, 1, 2, 3]
    assert seen(east, copy.topic) == expected(40)


def neighbours(topic: str) -> tuple[str, str]:
    """Two topics whose copies are in the same slot."""
    slots: dict[int, str] = {}
    for number in itertools.count():
        name = f"{topic}-{number}"
        slot = task_of(TopicPartition(f"source.{name}", 0))
        if slot in slots:
            return slots[slot], name
        slots[slot] = name
    raise AssertionError


def test_exactly_once_mirrors_of_different_topics_do_not_fence_each_other(
    clusters: tuple[str, str], topic: str
) -> None:
    west, east = clusters
    first, second = neighbours(topic)
    for each in (first, second):
        fill(west, each, 0, 10)
    told: list[Event] = []

    def beside_another_mirror(tasks: list[CopyTask]) -> list[Copied]:
        (task,) = tasks
        with in_the_middle(task) as producer:
            told.extend(mirrored(west, east, second, delivery="exactly-once"))
            producer.commit_transaction()
        return in_this_process(tasks)

    options = mirror_options(west, east, topics=first, delivery="exactly-once", groups=None)
    Mirror(options, beside_another_mirror, on_event=told.append).run(once=True)
    assert not [each for each in told if each["event"] == "failure"]
    for each in (first, second):
        assert seen(east, f"source.{each}") == expected(10)


@contextmanager
def in_the_middle(task: CopyTask) -> Iterator[Producer]:
    """A task with an open transaction."""
    copy = task.ranges[0].target.topic
    name = transactional_id(task.source_cluster, copy, task.slot)
    with Producer(bootstrap_servers=task.target["bootstrap.servers"], transactional_id=name) as it:
        it.init_transactions()
        it.begin_transaction()
        it.send_offsets_to_transaction({task.ranges[0].target: OffsetAndMetadata(0)}, "missing")
        yield it


def test_task_of_the_same_topic_is_fenced_by_another_mirror(
    clusters: tuple[str, str], topic: str
) -> None:
    west, east = clusters
    fill(west, topic, 0, 10)

    def beside_another_mirror(tasks: list[CopyTask]) -> list[Copied]:
        with in_the_middle(tasks[0]) as producer:
            mirrored(west, east, f"{topic}|other", delivery="exactly-once")
            with pytest.raises(KafkaError):
                producer.commit_transaction()
        return in_this_process(tasks)

    options = mirror_options(west, east, topics=topic, delivery="exactly-once", groups=None)
    Mirror(options, beside_another_mirror).run(once=True)
    assert seen(east, f"source.{topic}") == expected(10)


def test_task_of_an_earlier_version_is_fenced_at_the_start(
    clusters: tuple[str, str], topic: str
) -> None:
    west, east = clusters
    fill(west, topic, 0, 10)
    with Admin(bootstrap_servers=west) as admin:
        former, *_ = former_transactional_ids(admin.describe_cluster().cluster_id)
    with Producer(bootstrap_servers=east, transactional_id=former) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(f"other-{topic}", b"late").result(TIMEOUT_S)
        mirrored(west, east, topic, delivery="exactly-once")
        with pytest.raises(KafkaError):
            producer.commit_transaction()


def test_mirror_without_matching_topics_reports_it(clusters: tuple[str, str], topic: str) -> None:
    assert mirrored(*clusters, topic) == [{"event": "no topic"}]
