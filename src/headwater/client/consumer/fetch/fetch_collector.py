"""Return fetched data to the application as records or tables.

Note: taking rows moves the position at once. A record that cannot be deserialized is put back, so
that the next poll fails on it again and the application can seek past it.
"""

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from headwater.client.consumer.consumer_metrics import ConsumerMetrics
from headwater.client.consumer.fetch.completed_fetch import CompletedFetch, Rows
from headwater.client.consumer.fetch.fetcher import Fetcher
from headwater.client.consumer.subscription_state import SubscriptionState
from headwater.client.errors import KafkaError, SerializationFailed, error_for, from_failure
from headwater.client.serialization.serdes import Deserializer
from headwater.common.exceptions import HeadwaterError
from headwater.records.consumer_record import ConsumerRecord
from headwater.records.kernel import consumed_records

if TYPE_CHECKING:
    import pyarrow as pa

_ALL = 2**31 - 1
_new_tuple = tuple.__new__


class FetchCollector:
    """Takes buffered data from a fetcher, as Kafka's FetchCollector."""

    def __init__(
        self,
        fetcher: Fetcher,
        state: SubscriptionState,
        metrics: ConsumerMetrics,
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
    ) -> None:
        self._fetcher = fetcher
        self._state = state
        self._metrics = metrics
        self._key_of = key_deserializer
        self._value_of = value_deserializer

    def records(self, limit: int) -> list[ConsumerRecord]:
        """Up to `limit` records. Raises if the first one cannot be decoded."""
        records: list[ConsumerRecord] = []
        passed: deque[CompletedFetch] = deque()
        try:
            while (left := limit - len(records)) > 0:
                rows = self._next(left, passed, may_raise=not records)
                if rows is None:
                    break
                made = consumed_records(
                    rows.columns,
                    rows.start,
                    rows.stop,
                    rows.partition.topic,
                    rows.partition.partition,
                    rows.leader_epoch,
                )
                if self._key_of is None and self._value_of is None:
                    records += made
                    continue
                failure = self._deserialize(made, records)
                if failure is not None:
                    self._put_back(rows, failure[0])
                    if not records:
                        raise failure[1]
                    break
        finally:
            self._finish(passed)
            self._metrics.consumed_records += len(records)
        return records

    def no_rows(self, *, views: bool = False) -> "pa.Table":
        """An empty table. For the polling thread."""
        return self.table_of([], views=views)

    def table_of(self, rows: list[Rows], *, views: bool = False) -> "pa.Table":
        """Build a table from taken rows. For the polling thread."""
        self._metrics.consumed_records += sum(each.stop - each.start for each in rows)
        # Imported here because importing pyarrow is slow and most programs do not need it.
        from headwater.client.consumer.fetch.arrow_tables import table_of

        return table_of(rows, views=views)

    def table(self, limit: int | None, *, views: bool = False) -> "pa.Table":
        """All buffered records, or up to `limit`, as an Arrow table."""
        self._fetcher.expect_tables()
        taken: list[Rows] = []
        left = _ALL if limit is None else limit
        # With a limit rows may be left over, and records cannot be made from views.
        as_views = views and limit is None
        passed: deque[CompletedFetch] = deque()
        try:
            while left > 0:
                rows = self._next(left, passed, may_raise=not taken, as_views=as_views)
                if rows is None:
                    break
                taken.append(rows)
                left -= rows.stop - rows.start
        finally:
            self._finish(passed)
        return self.table_of(taken, views=views)

    def whole(self) -> list[CompletedFetch]:
        """Take all buffered data undecoded, and move the position behind it.

        A blocking consumer decodes it in its own thread while the loop's thread receives more.
        """
        self._fetcher.expect_tables()
        waiting = self._fetcher.data
        taken: list[CompletedFetch] = []
        passed: deque[CompletedFetch] = deque()
        while waiting:
            data = waiting.popleft()
            state = self._state.state_for(data.partition, data.token)
            if state is not None and state.is_paused:
                data.detach()
                passed.append(data)
                continue
            self._fetcher.drop(data)
            if state is not None:
                self._state.consumed(state, data.end_offset, data.end_epoch)
                self._metrics.consumed_bytes += data.size_bytes
                taken.append(data)
        waiting.extend(passed)
        return taken

    def restore(self, unread: list[CompletedFetch]) -> None:
        """Return data that could not be decoded, and move the position back before it."""
        for data in reversed(unread):
            state = self._state.state_for(data.partition, data.token)
            if state is not None:
                self._fetcher.restore(data)
                self._metrics.consumed_bytes -= data.size_bytes
                self._state.consumed(state, data.next_offset, data.next_epoch)

    def _next(
        self, limit: int, passed: deque[CompletedFetch], *, may_raise: bool, as_views: bool = False
    ) -> Rows | None:
        """The next rows of a partition that is not paused; paused data goes to `passed`."""
        waiting = self._fetcher.data
        while waiting:
            data = waiting[0]
            state = self._state.state_for(data.partition, data.token)
            if state is None:
                self._fetcher.drop(waiting.popleft())
            elif state.is_paused:
                data.detach()
                passed.append(waiting.popleft())
            else:
                try:
                    rows = data.take_all(views=True) if as_views else data.take(limit)
                except HeadwaterError as error:
                    if not may_raise:
                        return None
                    raise _located(data, from_failure(error)) from error
                self._state.consumed(state, data.next_offset, data.next_epoch)
                if rows is not None:
                    return rows
                self._drop_used(waiting.popleft())
        return None

    def _finish(self, passed: deque[CompletedFetch]) -> None:
        """Drop used-up data, and put back the data of paused partitions."""
        waiting = self._fetcher.data
        if waiting and waiting[0].is_empty:
            self._drop_used(waiting.popleft())
        waiting.extendleft(reversed(passed))

    def _drop_used(self, data: CompletedFetch) -> None:
        self._metrics.consumed_bytes += data.size_bytes
        self._fetcher.drop(data)

    def _deserialize(
        self, made: list[ConsumerRecord], records: list[ConsumerRecord]
    ) -> tuple[int, SerializationFailed] | None:
        """Append deserialized records; return index and error of the first failure."""
        key_of, value_of = self._key_of, self._value_of
        for index, record in enumerate(made):
            topic, partition, offset, timestamp, kind, key, value, headers, epoch = record
            try:
                if key_of is not None and key is not None:
                    key = key_of(key)
                if value_of is not None and value is not None:
                    value = value_of(value)
            except Exception as error:  # noqa: BLE001 - a deserializer may raise anything
                text = f"cannot deserialize {topic}-{partition} at offset {offset}: {error}"
                failure = SerializationFailed(text)
                failure.__cause__ = error
                return index, failure
            fields = (topic, partition, offset, timestamp, kind, key, value, headers, epoch)
            records.append(_new_tuple(ConsumerRecord, fields))
        return None

    def _put_back(self, rows: Rows, count: int) -> None:
        """Return all but the first `count` of the rows just taken."""
        data = self._fetcher.data[0]
        data.put_back(rows, count)
        state = self._state.state_for(data.partition, data.token)
        assert state is not None
        self._state.consumed(state, data.next_offset, data.next_epoch)


class Unpacked(NamedTuple):
    """The result of decoding data outside the loop's thread."""

    rows: list[Rows]
    unread: list[CompletedFetch]
    error: KafkaError | None


def unpack(taken: list[CompletedFetch], *, views: bool = False) -> Unpacked:
    """Decode all data up to the first damage. For any thread."""
    rows: list[Rows] = []
    for index, data in enumerate(taken):
        try:
            while (some := data.take_all(views=views)) is not None:
                rows.append(some)
        except HeadwaterError as error:
            return Unpacked(rows, taken[index:], _located(data, from_failure(error)))
    return Unpacked(rows, [], None)


def _located(data: CompletedFetch, error: KafkaError) -> KafkaError:
    return error_for(error.code, f"{data.partition} at offset {data.next_offset}: {error}")
