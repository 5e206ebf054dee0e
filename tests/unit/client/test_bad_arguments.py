"""Mistakes that everybody makes once, with every client: each is told by name and in a sentence."""

import asyncio
import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.client import (
    Admin,
    Consumer,
    Deduplicator,
    ParallelConsumer,
    TopicPartition,
    aio,
)
from headwater.client import Producer as BlockingProducer
from headwater.client.errors import (
    ClientClosed,
    IllegalState,
    InvalidArgument,
    InvalidRegularExpression,
)
from headwater.common.exceptions import CorruptFile, InvalidSetting, StorageError
from tests.unit.client.parallel.test_deduplicator import record

# Nobody is asked: what is wrong is told before.
NOWHERE = "127.0.0.1:9"
SETTINGS = {"bootstrap.servers": NOWHERE, "group.id": "drinkers"}


ALL_CLIENTS = [
    BlockingProducer,
    Consumer,
    Admin,
    ParallelConsumer,
    aio.Producer,
    aio.Consumer,
    aio.Admin,
]


@pytest.mark.parametrize("make", ALL_CLIENTS, ids=lambda make: f"{make.__module__} {make.__name__}")
def test_an_address_is_no_mapping_of_settings(make: Callable[[Any], object]) -> None:
    with pytest.raises(
        InvalidSetting, match=r"such as {'bootstrap.servers': '127.0.0.1:9'}, not '127.0.0.1:9'"
    ):
        make(NOWHERE)


@pytest.mark.parametrize("make", ALL_CLIENTS, ids=lambda make: f"{make.__module__} {make.__name__}")
def test_a_setting_has_a_name(make: Callable[[Any], object]) -> None:
    with pytest.raises(InvalidSetting, match="settings must be a mapping such as"):
        make({"bootstrap.servers": NOWHERE, 5: 6})


@pytest.mark.parametrize(
    ("keywords", "told"),
    [
        ({"workers": 0}, "workers must be at least 1, not 0"),
        ({"max_pending": "10"}, "max_pending must be an integer, not '10'"),
        ({"retry_backoff_ms": None}, "retry_backoff_ms must be an integer, not None"),
    ],
)
def test_workers_and_limits_of_a_parallel_consumer_are_whole_numbers(
    keywords: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidArgument, match=told):
        ParallelConsumer(SETTINGS, **keywords)


@pytest.mark.parametrize(
    "make",
    [BlockingProducer, Consumer, Admin, lambda given: ParallelConsumer({"group.id": "g", **given})],
)
def test_a_client_that_cannot_be_made_leaves_no_thread_behind(
    make: Callable[[Any], object],
) -> None:
    before = threading.active_count()
    for _ in range(3):
        with pytest.raises(InvalidSetting, match="an address must be host:port, not 'nowhere'"):
            make({"bootstrap.servers": "nowhere"})
    assert threading.active_count() == before


@pytest.mark.parametrize("timeout", ["5", float("nan"), float("inf"), [1]])
def test_what_is_no_number_of_seconds_is_refused_and_leaves_nothing_behind(timeout: Any) -> None:
    with Consumer(SETTINGS) as consumer:
        for call in (consumer.poll, consumer.poll_table):
            with pytest.raises(InvalidArgument, match="a timeout must be a number of seconds"):
                call(timeout)
    with (
        BlockingProducer(bootstrap_servers=NOWHERE) as producer,
        pytest.raises(InvalidArgument, match="a timeout must be a number of seconds"),
    ):
        producer.flush(timeout)
    # A coroutine that nobody awaits would say so now.
    gc.collect()


@pytest.mark.parametrize(
    "make",
    [
        lambda: BlockingProducer(bootstrap_servers=NOWHERE),
        lambda: Consumer(SETTINGS),
        lambda: Admin(bootstrap_servers=NOWHERE),
        lambda: ParallelConsumer(SETTINGS),
    ],
)
def test_a_closed_client_cannot_be_entered(make: Callable[[], Any]) -> None:
    client = make()
    client.close()
    with pytest.raises(ClientClosed), client:
        pass


@pytest.mark.parametrize(
    "make",
    [
        lambda: aio.Producer(bootstrap_servers=NOWHERE),
        lambda: aio.Consumer(bootstrap_servers=NOWHERE),
        lambda: aio.Admin(bootstrap_servers=NOWHERE),
    ],
)
def test_a_closed_client_of_asyncio_cannot_be_entered(make: Callable[[], Any]) -> None:
    async def enter_twice() -> None:
        client = make()
        async with client:
            pass
        with pytest.raises(ClientClosed):
            async with client:
                pass

    asyncio.run(enter_twice())


def test_a_closed_parallel_consumer_does_not_run() -> None:
    consumer = ParallelConsumer(SETTINGS)
    consumer.close()
    with pytest.raises(ClientClosed):
        consumer.run(print)


def test_what_is_no_pattern_is_told_by_name() -> None:
    with (
        Consumer(SETTINGS) as consumer,
        pytest.raises(InvalidRegularExpression, match=r"'tea\(' is not a valid pattern"),
    ):
        consumer.subscribe(pattern="tea(")


def test_a_consumer_of_asyncio_that_is_given_no_topics_says_how_to_leave() -> None:
    async def subscribe() -> None:
        async with aio.Consumer(SETTINGS) as consumer:
            consumer.subscribe([])

    with pytest.raises(InvalidArgument, match="unsubscribe"):
        asyncio.run(subscribe())


def test_there_is_no_offset_for_a_time_before_time() -> None:
    place = TopicPartition("tea", 0)

    async def ask() -> None:
        async with aio.Consumer(SETTINGS) as consumer:
            await consumer.offsets_for_times({place: -1})

    with (
        Consumer(SETTINGS) as consumer,
        pytest.raises(InvalidArgument, match="a timestamp must be at least 0, not -1"),
    ):
        consumer.offsets_for_times({place: -1})
    with pytest.raises(InvalidArgument, match="a timestamp must be at least 0, not -1"):
        asyncio.run(ask())


def test_whoever_wakes_a_closed_consumer_does_no_harm() -> None:
    consumer = Consumer(SETTINGS)
    consumer.close()
    consumer.wakeup()


def test_who_sends_without_a_transaction_is_told_what_to_call() -> None:
    with BlockingProducer(bootstrap_servers=NOWHERE, transactional_id="tea") as producer:
        with pytest.raises(IllegalState, match="call init_transactions first"):
            producer.send("tea", b"green")
        with pytest.raises(IllegalState, match="call init_transactions first"):
            producer.begin_transaction()


def test_an_identity_is_a_name_or_a_function_that_gives_bytes_or_a_text(tmp_path: Path) -> None:
    number: Any = 5
    with pytest.raises(InvalidSetting, match="a header name or a function, not 5"):
        Deduplicator(tmp_path / "seen", identity=number)
    of_offset: Any = lambda each: each.offset  # noqa: E731
    with (
        Deduplicator(tmp_path / "seen", identity=of_offset) as seen,
        pytest.raises(InvalidArgument, match="an identity must be bytes or str, not 7"),
    ):
        seen.is_new(record(None, offset=7))


def test_a_memory_in_a_folder_that_is_missing_is_not_called_corrupt(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"directory .*missing does not exist") as told:
        Deduplicator(tmp_path / "missing" / "seen", identity="id")
    assert not isinstance(told.value, CorruptFile)
