"""Read records for HTTP responses, with limits in bytes, records and time.

A poll may return more than a response may contain. The rest waits here for the next request, and
the next poll happens when all of it has been returned. So an auto commit, which happens in a poll,
never covers a record that no response contained; nor does a commit of this module.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from headwater.client.aio import Consumer
from headwater.client.consumer.subscription import RebalanceListener
from headwater.client.errors import IllegalState, SerializationFailed
from headwater.client.group_metadata import OffsetAndMetadata
from headwater.common.exceptions import InvalidPattern
from headwater.common.ids import TopicPartition
from headwater.common.ports import Clock
from headwater.coordinator.topic_regex.topic_pattern import TopicPattern
from headwater.records.consumer_record import ConsumerRecord
from headwater.rest.formats.embedded_format import EmbeddedFormat
from headwater.rest.rest_errors import RestProxyError

Decode = Callable[[bytes | None], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """When a response is complete."""

    timeout_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int


class ConsumerReader:
    """A consumer with the records that no response has contained yet."""

    def __init__(
        self,
        consumer: Consumer,
        clock: Clock,
        *,
        embedded: EmbeddedFormat,
        decode: Decode,
        limits: ReadLimits,
    ) -> None:
        self.format = embedded
        self.limits = limits
        self._consumer = consumer
        self._clock = clock
        self._decode = decode
        self._waiting: deque[ConsumerRecord] = deque()
        self._returned: dict[TopicPartition, int] = {}

    # Subscription.

    def subscribe(self, topics: Sequence[str] | None, pattern: str | None) -> None:
        listener = _Forget(self._forget)
        if pattern is None:
            self._consumer.subscribe(topics or (), listener=listener)
        else:
            matcher = _matcher(pattern)
            # The consumer only calls `search`; Python's own patterns could block the loop.
            self._consumer.subscribe(pattern=cast(Any, matcher), listener=listener)

    async def unsubscribe(self) -> None:
        self._return_waiting()
        await self._consumer.unsubscribe()
        self._returned.clear()

    def subscription(self) -> list[str]:
        return sorted(self._consumer.subscription())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        wanted = list(partitions)
        self._return_waiting()
        self._consumer.assign(wanted)
        self._returned.clear()

    def assignment(self) -> list[TopicPartition]:
        return sorted(self._consumer.assignment())

    # Positions.

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._check_assigned(offsets)
        for partition, offset in offsets.items():
            self._consumer.seek(partition, offset)
        self._forget(offsets)

    def seek_to_beginning(self, partitions: Sequence[TopicPartition]) -> None:
        self._check_assigned(partitions)
        self._consumer.seek_to_beginning(partitions)
        self._forget(partitions)

    def seek_to_end(self, partitions: Sequence[TopicPartition]) -> None:
        self._check_assigned(partitions)
        self._consumer.seek_to_end(partitions)
        self._forget(partitions)

    async def offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first offset at or after a time; the end if there is none."""
        found = await self._consumer.offsets_for_times(times)
        late = [each for each, place in found.items() if place is None]
        ends = await self._consumer.end_offsets(late) if late else {}
        return {
            each: ends[each] if place is None else place.offset for each, place in found.items()
        }

    # Commits.

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None) -> None:
        """Commit these offsets, or those after all records that were returned."""
        chosen = (
            {each: OffsetAndMetadata(offset) for each, offset in self._returned.items()}
            if offsets is None
            else dict(offsets)
        )
        if chosen:
            await self._consumer.commit(chosen)

    async def committed(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return await self._consumer.committed(partitions)

    # Records.

    async def read(self, limits: ReadLimits) -> list[dict[str, Any]]:
        """Records for one response; an empty list after the timeout."""
        taken: list[ConsumerRecord] = []
        try:
            await self._fill(taken, limits)
            return await self._converted(taken)
        except BaseException:
            # The next request gets them, also if this one was cancelled.
            self._waiting.extendleft(reversed(taken))
            raise

    async def _fill(self, taken: list[ConsumerRecord], limits: ReadLimits) -> None:
        """Poll until the response has enough records or the time is over."""
        deadline_ms = self._clock.steady_ms() + limits.timeout_ms
        taken_bytes = 0
        is_last = False
        while True:
            taken_bytes, is_full = self._take(taken, taken_bytes, limits)
            # A record may be empty: with a minimum of 1 byte, any record is enough.
            is_enough = bool(taken) and taken_bytes >= limits.min_bytes - 1
            if is_full or is_enough or is_last:
                return
            left_ms = deadline_ms - self._clock.steady_ms()
            is_last = left_ms <= 0
            self._waiting.extend(await self._consumer.poll(max(left_ms, 0) / 1000))

    def _take(
        self, taken: list[ConsumerRecord], taken_bytes: int, limits: ReadLimits
    ) -> tuple[int, bool]:
        """Move waiting records to a response; return its bytes and whether it is full."""
        while self._waiting:
            size = _size(self._waiting[0])
            # A record that is larger than the limit is returned alone, or it never would be.
            if taken and taken_bytes + size > limits.max_bytes:
                return taken_bytes, True
            if len(taken) >= limits.max_records:
                return taken_bytes, True
            taken.append(self._waiting.popleft())
            taken_bytes += size
        return taken_bytes, len(taken) >= limits.max_records

    async def _converted(self, taken: list[ConsumerRecord]) -> list[dict[str, Any]]:
        """The records as JSON. Ends before a record that cannot be decoded."""
        found: list[dict[str, Any]] = []
        for index, record in enumerate(taken):
            try:
                key, value = await self._decode(record.key), await self._decode(record.value)
            except SerializationFailed as error:
                if not found:
                    raise SerializationFailed(
                        f"cannot decode the record at topic {record.topic}, partition "
                        f"{record.partition}, offset {record.offset}: {error}; "
                        "seek past it to continue"
                    ) from error
                self._waiting.extendleft(reversed(taken[index:]))
                break
            found.append(
                {
                    "topic": record.topic,
                    "key": key,
                    "value": value,
                    "partition": record.partition,
                    "offset": record.offset,
                }
            )
        for record in taken[: len(found)]:
            self._returned[TopicPartition(record.topic, record.partition)] = record.offset + 1
        return found

    async def close(self, timeout_s: float) -> None:
        """Leave the group. Auto commit covers returned records only."""
        self._return_waiting()
        await self._consumer.close(timeout_s)

    def _check_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        assigned = self._consumer.assignment()
        for each in partitions:
            if each not in assigned:
                raise IllegalState(
                    f"No current assignment for partition {each.topic}-{each.partition}"
                )

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop waiting records of partitions whose position has changed, or are gone."""
        gone = set(partitions)
        self._waiting = deque(
            each for each in self._waiting if TopicPartition(each.topic, each.partition) not in gone
        )
        for each in gone:
            self._returned.pop(each, None)

    def _return_waiting(self) -> None:
        """Seek back to the waiting records, before the positions may be committed."""
        first: dict[TopicPartition, int] = {}
        for each in self._waiting:
            first.setdefault(TopicPartition(each.topic, each.partition), each.offset)
        assigned = self._consumer.assignment()
        for partition, offset in first.items():
            if partition in assigned:
                self._consumer.seek(partition, offset)
        self._waiting.clear()


class _Forget(RebalanceListener):
    """Drops what was read of partitions that are revoked."""

    def __init__(self, forget: Callable[[Iterable[TopicPartition]], None]) -> None:
        self._forget = forget

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self._forget(partitions)


class _Matcher:
    """A pattern in RE2 syntax, which takes linear time, for a consumer."""

    def __init__(self, pattern: TopicPattern) -> None:
        self._pattern = pattern

    def search(self, name: str, /) -> bool | None:
        try:
            return self._pattern.matches(name) or None
        except InvalidPattern:
            # The pattern has used up its work.
            return None


def _matcher(pattern: str) -> _Matcher:
    try:
        return _Matcher(TopicPattern(pattern))
    except InvalidPattern as error:
        raise RestProxyError(422, f"topic_pattern is not a valid pattern: {error}") from error


def _size(record: ConsumerRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")
