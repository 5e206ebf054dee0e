"""Committed and pending offsets, transactions and expiry."""

import pytest

from headwater.common.ids import ProducerId, TopicPartition
from headwater.coordinator.group.committed_offsets import (
    CommittedOffsets,
    Expiry,
    tombstone,
)
from headwater.coordinator.records.offset_records import (
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
)
from tests.simulation.fakes.scripted_group import PuppetGroup

ORDERS = TopicPartition("orders", 0)
BILLS = TopicPartition("bills", 3)
PRODUCER = ProducerId(7)
OTHER_PRODUCER = ProducerId(8)
RETENTION_MS = 1000


class Log:
    """Numbers records as a log does, and replays them."""

    def __init__(self) -> None:
        self.offsets = CommittedOffsets()
        self.end_offset = 0

    def commit(
        self,
        offset: int,
        *,
        partition: TopicPartition = ORDERS,
        producer_id: ProducerId | None = None,
        commit_timestamp: int = 0,
        expire_timestamp: int = -1,
    ) -> None:
        value = OffsetCommitValue(
            offset=offset, commit_timestamp=commit_timestamp, expire_timestamp=expire_timestamp
        )
        key = OffsetCommitKey(group="g", topic=partition.topic, partition=partition.partition)
        self.write(OffsetCommitRecord(key, value), producer_id)

    def write(self, record: OffsetCommitRecord, producer_id: ProducerId | None = None) -> None:
        self.offsets.replay(record, offset=self.end_offset, producer_id=producer_id)
        self.end_offset += 1

    def end(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        self.offsets.end_transaction(producer_id, is_commit=is_commit)
        self.end_offset += 1

    def committed(self, partition: TopicPartition = ORDERS) -> int | None:
        value = self.offsets.get("g", partition)
        return value.offset if value is not None else None


@pytest.fixture
def log() -> Log:
    return Log()


def test_the_last_commit_counts(log: Log) -> None:
    log.commit(5)
    log.commit(3)
    assert log.committed() == 3
    assert log.committed(BILLS) is None


def test_a_transactional_commit_counts_after_its_commit_marker(log: Log) -> None:
    """TX-12."""
    log.commit(5)
    log.commit(9, producer_id=PRODUCER)
    assert log.committed() == 5
    assert log.offsets.is_pending("g", ORDERS)
    assert not log.offsets.is_pending("g", BILLS)
    log.end(PRODUCER, is_commit=True)
    assert log.committed() == 9
    assert not log.offsets.is_pending("g", ORDERS)


def test_an_aborted_transaction_leaves_no_trace(log: Log) -> None:
    """TX-12."""
    log.commit(5)
    log.commit(9, producer_id=PRODUCER)
    log.commit(1, producer_id=PRODUCER, partition=BILLS)
    log.end(PRODUCER, is_commit=False)
    assert log.committed() == 5
    assert log.committed(BILLS) is None
    assert not log.offsets.is_pending("g", ORDERS)
    log.end(PRODUCER, is_commit=True)
    assert log.committed() == 5


def test_of_two_commits_the_later_record_wins(log: Log) -> None:
    """TX-12: compaction keeps the later record, so after a restart there is no other."""
    log.commit(9, producer_id=PRODUCER)
    log.commit(5)
    log.end(PRODUCER, is_commit=True)
    assert log.committed() == 5


def test_transactions_of_two_producers_end_one_by_one(log: Log) -> None:
    log.commit(9, producer_id=PRODUCER)
    log.commit(11, producer_id=OTHER_PRODUCER)
    log.end(OTHER_PRODUCER, is_commit=True)
    assert log.committed() == 11
    assert log.offsets.is_pending("g", ORDERS)
    log.end(PRODUCER, is_commit=True)
    assert log.committed() == 11
    assert not log.offsets.is_pending("g", ORDERS)


def test_a_tombstone_deletes_pending_offsets_too(log: Log) -> None:
    log.commit(5)
    log.commit(9, producer_id=PRODUCER)
    log.write(tombstone("g", ORDERS))
    assert log.committed() is None
    assert not log.offsets.is_pending("g", ORDERS)
    log.end(PRODUCER, is_commit=True)
    assert log.committed() is None
    assert not log.offsets.has_any("g")


def test_a_group_with_only_an_open_transaction_exists(log: Log) -> None:
    """TX-12: pending offsets keep the group."""
    log.commit(9, producer_id=PRODUCER)
    assert log.offsets.has_any("g")
    assert log.offsets.groups() == ["g"]
    assert log.offsets.expired(PuppetGroup(), now_ms=0, retention_ms=0) == Expiry((), False)


def test_tombstones_cover_all_offsets_of_a_group_including_pending_ones(log: Log) -> None:
    log.commit(5)
    log.commit(9, producer_id=PRODUCER)
    log.commit(1, partition=BILLS, producer_id=PRODUCER)
    assert log.offsets.tombstones("g") == (tombstone("g", ORDERS), tombstone("g", BILLS))


def test_offsets_of_deleted_topics_get_tombstones(log: Log) -> None:
    """OE-2."""
    log.commit(5)
    log.commit(1, partition=BILLS, producer_id=PRODUCER)
    assert log.offsets.topic_tombstones(frozenset({"bills"})) == (tombstone("g", BILLS),)


def test_offsets_expire_after_their_retention(log: Log) -> None:
    """OE-1."""
    log.commit(5, commit_timestamp=100)
    group = PuppetGroup()

    def expired(now_ms: int) -> Expiry:
        return log.offsets.expired(group, now_ms=now_ms, retention_ms=RETENTION_MS)

    assert expired(1099) == Expiry((), False)
    assert expired(1100) == Expiry((tombstone("g", ORDERS),), True)


def test_offsets_of_an_empty_group_expire_from_when_it_became_empty(log: Log) -> None:
    """OE-1."""
    log.commit(5, commit_timestamp=100)
    group = PuppetGroup(empty_since_ms=5000)
    assert log.offsets.expired(group, now_ms=5999, retention_ms=RETENTION_MS).records == ()
    assert log.offsets.expired(group, now_ms=6000, retention_ms=RETENTION_MS).is_all


def test_offsets_of_subscribed_topics_do_not_expire(log: Log) -> None:
    """OE-1."""
    log.commit(5)
    log.commit(1, partition=BILLS)
    group = PuppetGroup(subscriptions=("orders",))
    expiry = log.offsets.expired(group, now_ms=RETENTION_MS, retention_ms=RETENTION_MS)
    assert expiry == Expiry((tombstone("g", BILLS),), False)


def test_nothing_expires_while_the_group_forbids_it(log: Log) -> None:
    """OE-1: during a rebalance, for instance."""
    log.commit(5, expire_timestamp=1)
    group = PuppetGroup(empty_since_ms=None)
    assert log.offsets.expired(group, now_ms=10**9, retention_ms=0) == Expiry((), False)


def test_a_commit_with_its_own_retention_expires_by_that(log: Log) -> None:
    """OE-2."""
    log.commit(5, commit_timestamp=0, expire_timestamp=5000)
    group = PuppetGroup()
    assert log.offsets.expired(group, now_ms=4999, retention_ms=RETENTION_MS) == Expiry((), False)
    assert log.offsets.expired(group, now_ms=5000, retention_ms=10**9).is_all


def test_a_pending_commit_keeps_the_offset_it_will_replace(log: Log) -> None:
    """TX-12."""
    log.commit(5)
    log.commit(9, producer_id=PRODUCER)
    group = PuppetGroup()
    expiry = log.offsets.expired(group, now_ms=RETENTION_MS, retention_ms=RETENTION_MS)
    assert expiry == Expiry((), False)


def test_a_group_without_offsets_counts_as_fully_expired(log: Log) -> None:
    """GR-18."""
    assert log.offsets.expired(PuppetGroup(), now_ms=0, retention_ms=1) == Expiry((), True)
