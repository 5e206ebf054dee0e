"""Transactions of coordinators, and hanging transactions of partitions.

A transaction hangs when a partition has it open but no coordinator will ever complete it: the
coordinator does not know it, or has it ongoing without this partition (KIP-664). read_committed
consumers are blocked at it, so it has to be found and aborted manually.

Note: between the last record of a transaction and its marker, every healthy transaction looks like
that for a moment. So only transactions older than `transaction.max.timeout.ms` (15 minutes by
default) plus some grace count as hanging.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headwater.client.admin.descriptions import ProducerDescription, TransactionDescription
from headwater.client.aio import Admin
from headwater.client.errors import KafkaError, SomeFailed
from headwater.common.ids import TopicPartition
from headwater.console.console_errors import not_found
from headwater.console.views.cluster_view import ClusterView, is_offline
from headwater.console.views.paging import Page, page_of

HANGS_AFTER_MS: Final = 20 * 60 * 1000
PARTITIONS_ASKED_MAX: Final = 20_000
AT_ONCE: Final = 8

_COMPLETED: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRow:
    """A transactional id, as its coordinator describes it."""

    id: str
    producer_id: int
    state: str
    age_ms: int | None = None
    timeout_ms: int | None = None
    coordinator: int | None = None
    partitions: tuple[str, ...] = ()
    complaint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransactionRow:
    """An open transaction in a partition. `id` is None if no coordinator knows it."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_write_ms: int
    age_ms: int
    id: str | None
    hangs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsView:
    """A page of transactional ids, and all open transactions of partitions."""

    transactions: Page[TransactionRow]
    search: str
    waiting: tuple[OpenTransactionRow, ...]
    partitions_asked: int
    all_partitions: int
    complaints: tuple[str, ...]


async def transactions(
    admin: Admin, cluster: ClusterView, *, search: str, page: int, size: int, now_ms: int
) -> TransactionsView:
    listed = await admin.list_transactions()
    chosen = [
        each
        for each in sorted(listed, key=lambda one: (one.state in _COMPLETED, one.transactional_id))
        if search.lower() in each.transactional_id.lower()
    ]
    found = page_of(chosen, page=page, size=size)
    gate = asyncio.Semaphore(AT_ONCE)

    async def row(transactional_id: str, producer_id: int, state: str) -> TransactionRow:
        async with gate:
            try:
                description = (await admin.describe_transactions([transactional_id]))[
                    transactional_id
                ]
            except KafkaError as error:
                return TransactionRow(
                    id=transactional_id, producer_id=producer_id, state=state, complaint=str(error)
                )
        return _row(description, now_ms)

    rows = await asyncio.gather(
        *(row(each.transactional_id, each.producer_id, each.state) for each in found.rows)
    )
    places = [
        TopicPartition(name, each.partition)
        for name, topic in sorted(cluster.topics.items())
        for each in topic.partitions
        if not is_offline(each)
    ]
    producers, complaints = await _producers(admin, places[:PARTITIONS_ASKED_MAX])
    known = {each.producer_id: each.transactional_id for each in listed}
    open_producers = [
        (place, each)
        for place, partition_producers in producers.items()
        for each in partition_producers
        if each.transaction_start_offset is not None
    ]
    ids = sorted(
        {known[each.producer_id] for _, each in open_producers if each.producer_id in known}
    )
    running = await _described(admin, ids)
    return TransactionsView(
        transactions=Page(rows=tuple(rows), page=found.page, size=found.size, total=found.total),
        search=search,
        waiting=open_transactions(open_producers, known=known, running=running, now_ms=now_ms),
        partitions_asked=min(len(places), PARTITIONS_ASKED_MAX),
        all_partitions=len(places),
        complaints=tuple(complaints),
    )


def open_transactions(
    open_producers: Sequence[tuple[TopicPartition, ProducerDescription]],
    *,
    known: Mapping[int, str],
    running: Mapping[str, TransactionDescription],
    now_ms: int,
) -> tuple[OpenTransactionRow, ...]:
    """Open transactions, hanging ones first, then the oldest first."""
    rows = []
    for place, producer in open_producers:
        transactional_id = known.get(producer.producer_id)
        description = running.get(transactional_id or "")
        is_ongoing = (
            description is not None
            and description.state not in _COMPLETED
            and place in description.partitions
        )
        age_ms = max(now_ms - producer.last_timestamp, 0)
        assert producer.transaction_start_offset is not None
        rows.append(
            OpenTransactionRow(
                topic=place.topic,
                partition=place.partition,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                coordinator_epoch=producer.coordinator_epoch,
                start_offset=producer.transaction_start_offset,
                last_write_ms=producer.last_timestamp,
                age_ms=age_ms,
                id=transactional_id,
                hangs=not is_ongoing and age_ms > HANGS_AFTER_MS,
            )
        )
    return tuple(sorted(rows, key=lambda row: (not row.hangs, -row.age_ms)))


async def abort(admin: Admin, place: TopicPartition, producer_id: int) -> None:
    """Write the ABORT marker that no coordinator will write."""
    found = (await admin.describe_producers([place]))[place]
    for each in found:
        if each.producer_id == producer_id and each.transaction_start_offset is not None:
            await admin.abort_transaction(
                place,
                producer_id=producer_id,
                producer_epoch=each.producer_epoch,
                coordinator_epoch=max(each.coordinator_epoch, 0),
            )
            return
    raise not_found(f"Producer {producer_id} has no transaction open in {place}.")


def _row(description: TransactionDescription, now_ms: int) -> TransactionRow:
    started = description.start_time_ms
    return TransactionRow(
        id=description.transactional_id,
        producer_id=description.producer_id,
        state=description.state,
        age_ms=None if started is None or started < 0 else max(now_ms - started, 0),
        timeout_ms=description.timeout_ms,
        coordinator=description.coordinator_id,
        partitions=tuple(map(str, description.partitions)),
    )


async def _producers(
    admin: Admin, places: list[TopicPartition]
) -> tuple[dict[TopicPartition, list[ProducerDescription]], list[str]]:
    if not places:
        return {}, []
    try:
        return await admin.describe_producers(places), []
    except SomeFailed as error:
        return dict(error.results), sorted({str(each) for each in error.errors.values()})[:5]
    except KafkaError as error:
        # Brokers before 2.8 lack DescribeProducers (KIP-664); the transactional ids still work.
        return {}, [str(error)]


async def _described(admin: Admin, ids: list[str]) -> dict[str, TransactionDescription]:
    if not ids:
        return {}
    try:
        return await admin.describe_transactions(ids)
    except SomeFailed as error:
        return dict(error.results)
    except KafkaError:
        return {}
