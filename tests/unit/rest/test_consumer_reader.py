"""Limits of responses, and what may be committed."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from headwater.client.errors import SerializationFailed
from headwater.client.group_metadata import OffsetAndMetadata
from headwater.common.ids import TopicPartition
from headwater.records.batch_header import TimestampType
from headwater.records.consumer_record import ConsumerRecord
from headwater.rest.consumer_reader import ConsumerReader, ReadLimits
from headwater.rest.formats.embedded_format import EmbeddedFormat, decode

TEA = TopicPartition("tea", 0)
LIMITS = ReadLimits(timeout_ms=1_000, min_bytes=1, max_bytes=100, max_records=10)


class FakeClock:
    """Advances with each poll."""

    def __init__(self) -> None:
        self.time_ms = 0

    def now_ms(self) -> int:
        return self.time_ms

    def steady_ms(self) -> int:
        return self.time_ms


class FakeConsumer:
    """Returns prepared lists of records, one per poll, then nothing."""

    def __init__(self, clock: FakeClock, *polls: list[bytes | None]) -> None:
        self._clock = clock
        self._polls = list(polls)
        self._next_offset = 0
        self.seeks: dict[TopicPartition, int] = {}
        self.commits: list[Mapping[TopicPartition, OffsetAndMetadata]] = []
        self.is_closed = False

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset({TEA})

    async def poll(self, timeout: float) -> list[ConsumerRecord]:
        if not self._polls:
            self._clock.time_ms += round(timeout * 1000)
            return []
        self._clock.time_ms += 100
        found = []
        for value in self._polls.pop(0):
            found.append(record(self._next_offset, value))
            self._next_offset += 1
        return found

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.seeks[partition] = offset

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.commits.append(offsets)

    async def close(self, _timeout: float) -> None:
        self.is_closed = True


def record(offset: int, value: bytes | None) -> ConsumerRecord:
    return ConsumerRecord(
        "tea", 0, offset, 0, TimestampType.CREATE_TIME, None, value, (), leader_epoch=0
    )


def reader_of(*polls: list[bytes | None]) -> tuple[ConsumerReader, FakeConsumer, FakeClock]:
    clock = FakeClock()
    consumer = FakeConsumer(clock, *polls)

    async def decode_json(raw: bytes | None) -> Any:
        return decode(EmbeddedFormat.JSON, raw)

    reader = ConsumerReader(
        cast(Any, consumer),
        clock,
        embedded=EmbeddedFormat.JSON,
        decode=decode_json,
        limits=LIMITS,
    )
    return reader, consumer, clock


def offsets(records: list[dict[str, Any]]) -> list[int]:
    return [each["offset"] for each in records]


def test_response_ends_with_the_first_records_if_they_are_enough() -> None:
    reader, _, clock = reader_of([b"1", b"2"], [b"3"])
    assert offsets(asyncio.run(reader.read(LIMITS))) == [0, 1]
    assert clock.time_ms == 100


def test_response_waits_for_the_minimum_until_the_timeout() -> None:
    limits = ReadLimits(timeout_ms=1_000, min_bytes=50, max_bytes=100, max_records=10)
    reader, _, clock = reader_of([b"1"], [b"2"])
    assert offsets(asyncio.run(reader.read(limits))) == [0, 1]
    assert clock.time_ms == 1_000


def test_empty_record_is_enough_for_a_minimum_of_one_byte() -> None:
    reader, _, clock = reader_of([None])
    assert offsets(asyncio.run(reader.read(LIMITS))) == [0]
    assert clock.time_ms == 100


def test_records_beyond_the_limits_are_in_the_next_response() -> None:
    reader, _, _ = reader_of([b"11", b"22", b"33", b"44"])
    two = ReadLimits(timeout_ms=1_000, min_bytes=1, max_bytes=5, max_records=10)
    one = ReadLimits(timeout_ms=1_000, min_bytes=1, max_bytes=100, max_records=1)
    assert offsets(asyncio.run(reader.read(two))) == [0, 1]
    assert offsets(asyncio.run(reader.read(one))) == [2]
    assert offsets(asyncio.run(reader.read(LIMITS))) == [3]


def test_record_larger_than_the_limit_is_returned_alone() -> None:
    reader, _, _ = reader_of([b"1", b"2" * 200, b"3"])
    assert [offsets(asyncio.run(reader.read(LIMITS))) for _ in range(3)] == [[0], [1], [2]]


def test_commit_covers_returned_records_only() -> None:
    reader, consumer, _ = reader_of([b"11", b"22", b"33"])
    two = ReadLimits(timeout_ms=1_000, min_bytes=1, max_bytes=5, max_records=10)
    asyncio.run(reader.commit(None))
    assert offsets(asyncio.run(reader.read(two))) == [0, 1]
    asyncio.run(reader.commit(None))
    assert consumer.commits == [{TEA: OffsetAndMetadata(2)}]


def test_closing_seeks_back_to_records_that_were_not_returned() -> None:
    """Or an auto commit at the end would skip them."""
    reader, consumer, _ = reader_of([b"11", b"22", b"33"])
    two = ReadLimits(timeout_ms=1_000, min_bytes=1, max_bytes=5, max_records=10)
    asyncio.run(reader.read(two))
    asyncio.run(reader.close(1.0))
    assert (consumer.seeks, consumer.is_closed) == ({TEA: 2}, True)


def test_record_that_cannot_be_decoded_is_neither_skipped_nor_hidden() -> None:
    reader, consumer, _ = reader_of([b"1", b"not JSON", b"3"])
    assert offsets(asyncio.run(reader.read(LIMITS))) == [0]
    for _ in range(2):
        with pytest.raises(SerializationFailed, match="partition 0, offset 1"):
            asyncio.run(reader.read(LIMITS))
    asyncio.run(reader.commit(None))
    assert consumer.commits == [{TEA: OffsetAndMetadata(1)}]
    reader.seek({TEA: 2})
    assert consumer.seeks == {TEA: 2}


def test_cancelled_request_loses_no_records() -> None:
    reader, _, _ = reader_of([b"1"], [b"2"])

    async def cancel() -> None:
        async def never(_raw: bytes | None) -> Any:
            await asyncio.Event().wait()

        ready, reader._decode = reader._decode, never
        reading = asyncio.create_task(reader.read(LIMITS))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        reader._decode = ready
        assert offsets(await reader.read(LIMITS)) == [0]

    asyncio.run(cancel())
