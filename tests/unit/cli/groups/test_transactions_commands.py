"""`headwater transactions` against a real broker, and detection of hanging transactions."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from headwater.cli.groups.hanging_transactions import OpenTransaction, hanging, open_before, owners
from headwater.client import Producer, TopicPartition
from headwater.client.admin.descriptions import (
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
)
from headwater.client.errors import ProducerFenced
from headwater.testing import EmbeddedBroker
from tests.unit.cli.shell import Shell

TEA, CUPS = TopicPartition("tea", 0), TopicPartition("cups", 1)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as opened:
        yield opened


@pytest.fixture
def shell(broker: EmbeddedBroker) -> Shell:
    return Shell(broker.bootstrap_servers)


@pytest.fixture
def topic(shell: Shell) -> str:
    name = f"topic-{uuid4().hex[:8]}"
    shell.does("topics", "create", name)
    return name


@pytest.fixture
def brewing(shell: Shell, topic: str) -> Iterator[Producer]:
    """A producer with an open transaction; its transactional id is the topic's name."""
    with Producer(bootstrap_servers=shell.bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"green").result(60)
        yield producer


@pytest.mark.usefixtures("brewing")
def test_an_open_transaction_is_listed_by_state_producer_and_partition(
    shell: Shell, topic: str
) -> None:
    (row,) = [each for each in shell.tells("transactions", "list") if each["id"] == topic]
    assert row["state"] == "Ongoing"
    number = str(row["producer"])
    for words in (("--state", "Ongoing"), ("--producer-id", number), ("--longer-than", "PT0S")):
        assert row in shell.tells("transactions", "list", *words)
    assert shell.tells("transactions", "list", "--longer-than", "P1D") == []
    (described,) = shell.tells("transactions", "describe", topic)
    assert described["partitions"] == [f"{topic}-0"]
    (found,) = shell.tells("transactions", "producers", f"{topic}:0")
    assert (found["producer"], found["open_since"]) == (row["producer"], 0)
    # Its coordinator knows it, so it does not hang.
    assert shell.tells("transactions", "find-hanging", "-t", topic, "--older-than", "PT0S") == []
    assert shell.tells("transactions", "find-hanging") == []


def test_aborting_by_transactional_id_fences_the_producer(
    shell: Shell, topic: str, brewing: Producer
) -> None:
    (row,) = shell.tells("transactions", "abort", "--id", topic)
    assert row["id"] == topic
    with pytest.raises(ProducerFenced):
        brewing.commit_transaction()
    committed = ("consume", topic, "-f", "-e", "-s", "isolation.level=read_committed")
    assert shell.tells(*committed) == []
    (found,) = shell.tells("transactions", "producers", f"{topic}:0")
    assert found["open_since"] is None


@pytest.mark.usefixtures("brewing")
def test_a_transaction_is_aborted_by_partition_and_start_offset(shell: Shell, topic: str) -> None:
    wrong = shell.run("transactions", "abort", f"{topic}:0", "--start-offset", "7")
    assert (wrong.exit_code, wrong.stderr) == (
        1,
        f"headwater: no such transaction is open in {topic}-0\n",
    )
    shell.does("transactions", "abort", f"{topic}:0", "--start-offset", "0")
    (found,) = shell.tells("transactions", "producers", f"{topic}:0")
    assert found["open_since"] is None


def test_aborting_an_unknown_transactional_id_does_not_create_it(shell: Shell) -> None:
    assert shell.run("transactions", "abort", "--id", "missing").exit_code == 1
    assert "missing" not in {each["id"] for each in shell.tells("transactions", "list")}


@pytest.mark.parametrize(
    "words",
    [
        "abort",
        "abort tea:0",
        "abort tea:0 --id x",
        "abort --id x --producer-id 1",
        "abort tea:0 --producer-id 1 --start-offset 1",
        "list --longer-than 5",
        "find-hanging --older-than soon",
    ],
)
def test_contradictory_transaction_options_are_usage_errors(shell: Shell, words: str) -> None:
    assert shell.run("transactions", *words.split()).exit_code == 2


def producer(producer_id: int, *, since: int | None = 3, last_ms: int = 50) -> ProducerDescription:
    return ProducerDescription(
        producer_id=producer_id,
        producer_epoch=1,
        last_sequence=5,
        last_timestamp=last_ms,
        coordinator_epoch=0,
        transaction_start_offset=since,
    )


def transaction(
    transactional_id: str, producer_id: int, *partitions: TopicPartition
) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=transactional_id,
        coordinator_id=0,
        state="Ongoing",
        producer_id=producer_id,
        producer_epoch=1,
        timeout_ms=60_000,
        start_time_ms=10,
        partitions=partitions,
    )


def test_only_old_open_transactions_are_candidates() -> None:
    found = open_before(
        {TEA: [producer(1), producer(2, since=None), producer(3, last_ms=200)]}, before_ms=100
    )
    assert found == [OpenTransaction(TEA, producer(1))]


def test_a_transaction_hangs_if_no_coordinator_knows_of_it_in_that_partition() -> None:
    suspects = [
        OpenTransaction(TEA, producer(1)),
        OpenTransaction(TEA, producer(2)),
        OpenTransaction(CUPS, producer(2)),
        OpenTransaction(TEA, producer(3)),
    ]
    known = [
        TransactionListing(transactional_id="b", producer_id=2, state="Ongoing"),
        TransactionListing(transactional_id="c", producer_id=3, state="Ongoing"),
        TransactionListing(transactional_id="d", producer_id=4, state="Empty"),
    ]
    owner = owners(suspects, known)
    assert owner == {2: "b", 3: "c"}
    # The third transactional id has another producer id by now.
    described = {"b": transaction("b", 2, TEA), "c": transaction("c", 9, TEA)}
    assert hanging(suspects, owner, described) == [suspects[0], suspects[2], suspects[3]]
