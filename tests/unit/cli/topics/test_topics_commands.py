"""`headwater topics` against a real broker."""

import json
from collections.abc import Iterator
from typing import cast

import pytest

from headwater.cli.topics.topic_list import record_counts, topic_rows
from headwater.cli.topics.topics import is_wanted
from headwater.cli.units import ByteCount
from headwater.client import Admin, OffsetAndTimestamp, TopicPartition
from headwater.client.admin.descriptions import TopicDescription
from headwater.client.network.cluster_metadata import PartitionView
from headwater.testing import EmbeddedBroker
from tests.unit.cli.shell import Shell


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with EmbeddedBroker() as broker:
        yield Shell(broker.bootstrap_servers)


def test_delete_if_exists_ignores_a_missing_topic(shell: Shell) -> None:
    shell.does("topics", "create", "tea")
    assert shell.run("topics", "delete", "cups").exit_code == 1
    deleted = shell.tells("topics", "delete", "tea", "cups", "--if-exists")
    assert deleted == [{"topic": "tea"}]
    assert shell.tells("topics", "delete", "tea", "--if-exists") == []


def test_describe_filters_under_replicated_and_unavailable_partitions(shell: Shell) -> None:
    shell.does("topics", "create", "well")
    assert len(shell.tells("topics", "describe", "well")) == 1
    assert shell.tells("topics", "describe", "well", "--under-replicated", "--unavailable") == []


@pytest.mark.parametrize(
    ("leader_id", "isr", "troubles"),
    [
        (1, (1, 2), []),
        (1, (1,), ["under_replicated"]),
        (-1, (1,), ["under_replicated", "unavailable"]),
        (-1, (1, 2), ["unavailable"]),
    ],
)
def test_filters_match_under_replicated_and_unavailable_partitions(
    leader_id: int, isr: tuple[int, ...], troubles: list[str]
) -> None:
    each = PartitionView(partition=0, leader_id=leader_id, leader_epoch=0, replicas=(1, 2), isr=isr)
    assert is_wanted(each, under_replicated=False, unavailable=False)
    assert is_wanted(each, under_replicated=True, unavailable=False) == (
        "under_replicated" in troubles
    )
    assert is_wanted(each, under_replicated=False, unavailable=True) == ("unavailable" in troubles)
    assert is_wanted(each, under_replicated=True, unavailable=True) == bool(troubles)


def test_list_shows_partitions_replicas_records_and_state(shell: Shell) -> None:
    shell.does("topics", "create", "listed", "--partitions", "3")
    shell.does("produce", "listed", given="1\n2\n3\n")
    (row,) = shell.tells("topics", "list", "--match", "listed")
    size = row.pop("size")
    assert isinstance(size, int)
    assert size > 0
    assert row == {
        "topic": "listed",
        "partitions": 3,
        "replicas": 1,
        "records": 3,
        "state": "ok",
        "offline_partitions": 0,
        "under_replicated_partitions": 0,
        "internal": False,
    }
    head, line = shell.does("topics", "list", "--match", "listed").splitlines()
    assert head.split() == ["TOPIC", "PARTITIONS", "REPLICAS", "SIZE", "RECORDS", "STATE"]
    assert line.split() == ["listed", "3", "1", str(size), "B", "3", "ok"]


def test_list_is_filtered_and_sorted(shell: Shell) -> None:
    for name, partitions in (("sort-a", "1"), ("sort-b", "3"), ("sort-c", "2")):
        shell.does("topics", "create", name, "--partitions", partitions)
    sort = ("topics", "list", "-m", "sort-?", "--sort", "partitions")
    assert [row["topic"] for row in shell.tells(*sort)] == ["sort-b", "sort-c", "sort-a"]
    assert next(row["topic"] for row in shell.tells(*sort, "--reverse")) == "sort-a"
    assert shell.tells(*sort, "--state", "offline") == []
    assert shell.does("topics", "list", "-m", "sort-a", "--names") == "sort-a\n"
    assert shell.run("topics", "list", "--sort", "colour").exit_code == 2


def topic(name: str, *partitions: PartitionView) -> TopicDescription:
    return TopicDescription(name=name, partitions=partitions)


def view(number: int, leader_id: int, isr: tuple[int, ...]) -> PartitionView:
    return PartitionView(
        partition=number, leader_id=leader_id, leader_epoch=0, replicas=(1, 2), isr=isr
    )


def test_state_is_that_of_the_worst_partition() -> None:
    rows = topic_rows(
        [
            topic("whole", view(0, 1, (1, 2))),
            topic("behind", view(0, 1, (1, 2)), view(1, 1, (1,))),
            topic("offline", view(0, 1, (1,)), view(1, -1, (2,))),
        ],
        sizes=None,
        counts={},
    )
    assert [
        (row["state"], row["offline_partitions"], row["under_replicated_partitions"])
        for row in rows
    ] == [("ok", 0, 0), ("under-replicated", 0, 1), ("offline", 1, 1)]


class Offsets:
    """An admin client that answers ListOffsets and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[set[TopicPartition]] = []

    def list_offsets(
        self, places: dict[TopicPartition, int], *, timeout: float
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        assert timeout > 0
        self.asked.append(set(places))
        return {
            place: OffsetAndTimestamp(offset=10 if which == -1 else 4, timestamp=-1, leader_epoch=0)
            for place, which in places.items()
        }


def test_records_are_counted_for_whole_topics_up_to_the_limit() -> None:
    views = [view(number, 1, (1, 2)) for number in range(3)]
    topics = [
        topic("a", *views),
        topic("b", *views),
        topic("c", views[0]),
        topic("d", view(0, -1, ())),
    ]
    admin = Offsets()
    assert record_counts(cast("Admin", admin), topics, limit=4) == {"a": 18, "c": 6}
    assert [len(each) for each in admin.asked] == [4, 4]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (102_399, "100 KiB"),
        (1_048_575, "1.0 MiB"),
        (5 * 1024**4, "5.0 TiB"),
        (1024**6, "1024 PiB"),
    ],
)
def test_sizes_have_units_for_people_and_are_exact_in_json(size: int, text: str) -> None:
    assert str(ByteCount(size)) == text
    assert json.dumps(ByteCount(size)) == str(size)
