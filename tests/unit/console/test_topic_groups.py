"""Groups of a topic and their lag, with a real broker."""

from collections.abc import Iterator

import pytest

from headwater.client import Admin, Consumer, Producer, TopicPartition
from headwater.testing import EmbeddedBroker
from tests.console_process import ConsoleProcess

TEA, MORE_TEA = TopicPartition("tea", 0), TopicPartition("tea", 1)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        with (
            Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
            Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
        ):
            admin.create_topic("tea", partitions=2)
            admin.create_topic("coffee", partitions=1)
            for number in range(20):
                producer.send("tea", b"%d" % number, partition=number % 2)
            producer.flush()
            admin.alter_group_offsets("b-near", {TEA: 9})
            admin.alter_group_offsets("c-far", {TEA: 4, MORE_TEA: 1})
            admin.alter_group_offsets("d-elsewhere", {TopicPartition("coffee", 0): 0})
            admin.alter_group_offsets("e-beyond", {TEA: 1_000})
            admin.alter_group_offsets("f-late", {MORE_TEA: 0})
            admin.delete_records({MORE_TEA: 1})
        yield broker


@pytest.fixture(scope="module")
def console(broker: EmbeddedBroker) -> Iterator[ConsoleProcess]:
    with ConsoleProcess(broker.bootstrap_servers) as console:
        yield console


def test_groups_of_a_topic_are_listed_by_lag(
    console: ConsoleProcess, broker: EmbeddedBroker
) -> None:
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, group_id="a-member", enable_auto_commit=False
    ) as consumer:
        consumer.subscribe(["tea"])
        while not consumer.assignment():
            consumer.poll(0.1)
        found = console.api("/topics/tea/groups")
        assert [
            (each["id"], each["members"], each["partitions"], each["lag"])
            for each in found["readers"]
        ] == [
            ("c-far", 0, 2, 15),
            ("f-late", 0, 1, 10),
            ("b-near", 0, 1, 1),
            ("a-member", 1, 0, 0),
            ("e-beyond", 0, 1, 0),
        ]
        assert (found["asked"], found["all_groups"], found["untold"]) == (6, 6, 0)
        page = console.get("/topics/tea/groups").text
        assert 'href="/groups/c-far"' in page
        assert "d-elsewhere" not in page


def test_topic_without_groups_says_so(console: ConsoleProcess) -> None:
    made = console.post_json("/topics", {"name": "unread", "partitions": 1})
    assert made.status == 200
    assert "No group consumes this topic" in console.get("/topics/unread/groups").text
    assert console.get("/topics/nothing/groups").status == 404


def test_groups_are_sorted_by_lag(console: ConsoleProcess) -> None:
    rows = console.api("/groups?sort=lag")["groups"]["rows"]
    assert [each["id"] for each in rows][:3] == ["c-far", "f-late", "b-near"]
    names = [each["id"] for each in console.api("/groups")["groups"]["rows"]]
    assert names == sorted(names)
    first = console.api("/groups?sort=lag&size=1&page=2")["groups"]
    assert [each["id"] for each in first["rows"]] == ["f-late"]
    assert console.get("/groups?sort=age").status == 400


def test_offset_outside_of_the_log_is_marked(console: ConsoleProcess) -> None:
    """Otherwise a lag of zero would look healthy."""
    assert "beyond the log end" in console.get("/groups/e-beyond").text
    assert "records missed" in console.get("/groups/f-late").text
    page = console.get("/groups/c-far").text
    assert "beyond the log end" not in page
    assert "records missed" not in page
