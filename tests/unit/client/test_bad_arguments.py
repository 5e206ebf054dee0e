"""Common mistakes in calls of all clients raise clear errors."""

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

# No broker is contacted: errors are raised before.
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
def test_an_address_is_not_a_mapping_of_settings(make: Callable[[Any], object]) -> None:
    with pytest.raises(
        InvalidSetting, match=r"such as {'bootstrap.servers': '127.0.0.1:9'}, not '127.0.0.1:9'"
    ):
        make(NOWHERE)


@pytest.mark.parametrize("make", ALL_CLIENTS, ids=lambda make: f"{make.__module__} {make.__name__}")
def test_setting_names_must_be_strings(make: Callable[[Any], object]) -> None:
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
def test_parallel_consumer_options_must_be_integers(keywords: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        ParallelConsumer(SETTINGS, **keywords)


@pytest.mark.parametrize(
    "make",
    [BlockingProducer, Consumer, Admin, lambda given: ParallelConsumer({"group.id": "g", **given})],
)
def test_a_failed_constructor_leaves_no_thread(
    make: Callable[[Any], object],
) -> None:
    before = threading.active_count()
    for _ in range(3):
        with pytest.raises(InvalidSetting, match="an address must be host:port, not 'nowhere'"):
            make({"bootstrap.servers": "nowhere"})
    assert threading.active_count() == before


@pytest.mark.parametrize("timeout", ["5", float("nan"), float("inf"), [1]])
def test_an_invalid_timeout_is_rejected(timeout: Any) -> None:
    with Consumer(SETTINGS) as consumer:
        for call in (consumer.poll, consumer.poll_table):
            with pytest.raises(InvalidArgument, match="a timeout must be a number of seconds"):
                call(timeout)
    with (
        BlockingProducer(bootstrap_servers=NOWHERE) as producer,
        pytest.raises(InvalidArgument, match="a timeout must be a number of seconds"),
    ):
        producer.flush(timeout)
    # A coroutine that is never awaited would warn now.
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
def test_a_closed_asyncio_client_cannot_be_entered(make: Callable[[], Any]) -> None:
    async def enter_twice() -> None:
        client = make()
        async with client:
            pass
        with pytest.raises(ClientClosed):
            async with client:
                pass

    asyncio.run(enter_twice())


def test_a_closed_parallel_consumer_cannot_run() -> None:
    consumer = ParallelConsumer(SETTINGS)
    consumer.close()
    with pytest.raises(ClientClosed):
        consumer.run(print)


def test_an_invalid_pattern_is_named() -> None:
    with (
        Consumer(SETTINGS) as consumer,
        pytest.raises(InvalidRegularExpression, match=r"'tea\(' is not a valid pattern"),
    ):
        consumer.subscribe(pattern="tea(")


def test_subscribe_without_topics_names_unsubscribe_with_asyncio() -> None:
    async def subscribe() -> None:
        async with aio.Consumer(SETTINGS) as consumer:
            consumer.subscribe([])

    with pytest.raises(InvalidArgument, match="unsubscribe"):
        asyncio.run(subscribe())


def test_a_negative_timestamp_is_rejected() -> None:
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


def test_wakeup_of_a_closed_consumer_is_ignored() -> None:
    consumer = Consumer(SETTINGS)
    consumer.close()
    consumer.wakeup()


def test_sending_without_a_transaction_names_the_missing_call() -> None:
    with BlockingProducer(bootstrap_servers=NOWHERE, transactional_id="tea") as producer:
        with pytest.raises(IllegalState, match="call init_transactions first"):
            producer.send("tea", b"green")
        with pytest.raises(IllegalState, match="call init_transactions first"):
            producer.begin_transaction()


def test_an_identity_is_a_header_name_or_a_function_returning_bytes_or_str(tmp_path: Path) -> None:
    number: Any = 5
    with pytest.raises(InvalidSetting, match="a header name or a function, not 5"):
        Deduplicator(tmp_path / "seen", identity=number)
    of_offset: Any = lambda each: each.offset  # noqa: E731
    with (
        Deduplicator(tmp_path / "seen", identity=of_offset) as seen,
        pytest.raises(InvalidArgument, match="an identity must be bytes or str, not 7"),
    ):
        seen.is_new(record(None, offset=7))


def test_a_missing_directory_is_not_reported_as_corruption(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"directory .*missing does not exist") as told:
        Deduplicator(tmp_path / "missing" / "seen", identity="id")
    assert not isinstance(told.value, CorruptFile)
