"""Transactions: what coordinators know of, and what hangs in partitions though nobody does.

A transaction hangs when a partition waits for its end, and no coordinator will ever write it: the
coordinator has forgotten it, or has it under way without this partition (KIP-664). Readers of
committed records stand still before it, so it has to be found and aborted by hand.

What a reader would get wrong: between the last record of a transaction and its marker every
healthy one looks like that for a moment. So only what is older than any transaction may be, by the
brokers' own limit of fifteen minutes and some grace, is called hanging.
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

_OVER: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRow:
    """A transactional id, as its coordinator has it."""

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
    """A transaction that a partition waits for. `id` is None if no coordinator knows of it."""

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
    """A page of the transactional ids, and all that partitions wait for."""

    transactions: Page[TransactionRow]
    search: str
    waiting: tuple[OpenTransactionRow, ...]
    partitions_asked: int
    all_partitions: int
    complaints: tuple[str, ...]


async def transactions(
    admin: Admin, survey: ClusterView, *, search: str, page: int, size: int, now_ms: int
) -> TransactionsView:
    listed = await admin.list_transactions()
    chosen = [
        each
        for each in sorted(listed, key=lambda one: (one.state in _OVER, one.transactional_id))
        if search.lower() in each.transactional_id.lower()
    ]
    found = page_of(chosen, page=page, size=size)
    gate = asyncio.Semaphore(AT_ONCE)

    async def row(transactional_id: str, producer_id: int, state: str) -> TransactionRow:
        async with gate:
            try:
                told = (await admin.describe_transactions([transactional_id]))[transactional_id]
            except KafkaError as error:
                return TransactionRow(
                    id=transactional_id, producer_id=producer_id, state=state, complaint=str(error)
                )
        return _row(told, now_ms)

    rows = await asyncio.gather(
        *(row(each.transactional_id, each.producer_id, each.state) for each in found.rows)
    )
    places = [
        TopicPartition(name, each.partition)
        for name, topic in sorted(survey.topics.items())
        for each in topic.partitions
        if not is_offline(each)
    ]
    producers, complaints = await _producers(admin, places[:PARTITIONS_ASKED_MAX])
    known = {each.producer_id: each.transactional_id for each in listed}
    open_ones = [
        (place, each)
        for place, theirs in producers.items()
        for each in theirs
        if each.transaction_start_offset is not None
    ]
    ids = sorted({known[each.producer_id] for _, each in open_ones if each.producer_id in known})
    running = await _described(admin, ids)
    return TransactionsView(
        transactions=Page(rows=tuple(rows), page=found.page, size=found.size, total=found.total),
        search=search,
        waiting=judged(open_ones, known=known, running=running, now_ms=now_ms),
        partitions_asked=min(len(places), PARTITIONS_ASKED_MAX),
        all_partitions=len(places),
        complaints=tuple(complaints),
    )


def judged(
    open_ones: Sequence[tuple[TopicPartition, ProducerDescription]],
    *,
    known: Mapping[int, str],
    running: Mapping[str, TransactionDescription],
    now_ms: int,
) -> tuple[OpenTransactionRow, ...]:
    """What partitions wait for, and which of it hangs. Those come first, the oldest before all."""
    rows = []
    for place, producer in open_ones:
        transactional_id = known.get(producer.producer_id)
        told = running.get(transactional_id or "")
        is_cared_for = told is not None and told.state not in _OVER and place in told.partitions
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
                hangs=not is_cared_for and age_ms > HANGS_AFTER_MS,
            )
        )
    return tuple(sorted(rows, key=lambda row: (not row.hangs, -row.age_ms)))


async def abort(admin: Admin, place: TopicPartition, producer_id: int) -> None:
    """Write the end that no coordinator will write."""
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


def _row(told: TransactionDescription, now_ms: int) -> TransactionRow:
    started = told.start_time_ms
    return TransactionRow(
        id=told.transactional_id,
        producer_id=told.producer_id,
        state=told.state,
        age_ms=None if started is None or started < 0 else max(now_ms - started, 0),
        timeout_ms=told.timeout_ms,
        coordinator=told.coordinator_id,
        partitions=tuple(map(str, told.partitions)),
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
        # Old brokers cannot be asked (KIP-664 came with 2.8); the ids above are still good.
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
