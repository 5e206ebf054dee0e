"""Build Fetch responses from file ranges; first read what is not cached.

The response is sent when the last range has been read. The response of a fetch of many partitions
is built in steps, between which other connections are served (`request_service`).

Note: file ranges in the page cache are held open while other ranges of the response are read; the
connection releases them when it has sent them or is closed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby, islice
from typing import Final

from headwater.broker.requests.call import Call
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NO_TOPIC_ID
from headwater.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)
from headwater.protocol.send_parts import Part
from headwater.protocol.single_fetch import (
    SINGLE_FETCH_SINCE,
    SingleFetched,
    write_single_fetched,
)
from headwater.protocol.stepwise_codec import write_in_steps
from headwater.records.batch_header import BatchHeader, Buffer
from headwater.records.kernel import last_header
from headwater.replication.fetch.fetch_session import NO_SESSION, FetchContext
from headwater.replication.fetch.log_reads import PartitionRead
from headwater.storage.io.file_range import FileRange
from headwater.storage.io.file_range_reader import FileRangeReader
from headwater.storage.io.segment_cache import CachedRange
from headwater.storage.log.local_log import LocalLog

STEP_PARTITIONS: Final = 50
"""Partitions per step: less than a millisecond of work."""

_NO_RECORDS: Final = b""
_NOT_DIVERGING: Final = EpochEndOffset()


class PendingFetchResponse:
    """One response whose ranges are being read."""

    __slots__ = (
        "_call",
        "_cold",
        "_context",
        "_hint",
        "_is_abandoned",
        "_is_stepwise",
        "_left_bytes",
        "_missing",
        "_reads",
        "_records",
    )

    def __init__(
        self,
        call: Call,
        context: FetchContext,
        reads: list[PartitionRead],
        hint: Callable[[FetchResponse], FetchResponse] | None = None,
    ) -> None:
        """`hint` may add the current leaders to a response with errors."""
        self._call = call
        self._hint = hint
        self._context = context
        self._reads = reads
        self._records: dict[int, FileRange | CachedRange | Buffer] = {}
        # Pending reads, with the truncation count of their log when they began.
        self._cold: dict[int, tuple[LocalLog, int]] = {}
        self._missing = 1
        self._left_bytes: int | None = None
        self._is_stepwise = False
        self._is_abandoned = False

    def begin(self, ranges: FileRangeReader) -> None:
        self._start(0, ranges)
        self._complete_one()

    def add(self, reads: Sequence[PartitionRead], ranges: FileRangeReader) -> None:
        """Add some partitions of many; `finish` or `abandon` must follow.

        Ranges are read in the step that found them: in a later one their files might be truncated.
        """
        self._is_stepwise = True
        first = len(self._reads)
        self._reads += reads
        self._start(first, ranges)

    def finish(self) -> None:
        """All partitions have been added: answer once their ranges are read."""
        self._complete_one()

    def abandon(self) -> None:
        """Send no response; release all file ranges."""
        self._is_abandoned = True
        for records in self._records.values():
            _release(records)
        self._records = {}

    def _start(self, first: int, ranges: FileRangeReader) -> None:
        left_bytes = self._left_bytes
        if left_bytes is None:
            left_bytes = ranges.answer_limit_bytes
        for index in range(first, len(self._reads)):
            read = self._reads[index]
            found = read.range
            # Bytes read from disk stay in memory until they are sent, so one response does not get
            # all of them; the next fetch gets the rest.
            if found is not None and (left_bytes > 0 or ranges.is_hot(found)):
                self._missing += 1
                body = _log_of(read)
                is_hot = ranges.read(
                    found,
                    partial(self._delivered, index),
                    partial(self._failed, index),
                    consumer=self._call.address,
                    generation=None if body is None else body.truncations,
                )
                if not is_hot:
                    left_bytes -= found.length
                    if body is not None:
                        self._cold[index] = (body, body.truncations)
        self._left_bytes = left_bytes

    def _delivered(self, index: int, records: FileRange | CachedRange | Buffer) -> None:
        if self._is_abandoned:
            _release(records)
            return
        self._records[index] = records
        cold = self._cold.pop(index, None)
        found = self._reads[index].range
        if cold is not None and found is not None and not isinstance(records, FileRange):
            body, truncations = cold
            body.remember_read(found, _last_batch(records), truncations=truncations)
        self._complete_one()

    def _failed(self, index: int, error: HeadwaterError) -> None:
        self._reads[index] = PartitionRead(self._reads[index].wanted, error.code)
        self._complete_one()

    def _complete_one(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._answer()

    def _answer(self) -> None:
        call = self._call
        if self._is_stepwise and not call.is_disconnected:
            steps = self._answer_in_steps()
            # A generator that has not started would release nothing if the connection closes.
            next(steps)
            call.run_steps(steps)
            return
        session_id = self._session_id
        included = list(self._included())
        if len(included) == 1 and call.version >= SINGLE_FETCH_SINCE and _is_plain(included[0][0]):
            read, records = included[0]
            fetched = _single(session_id, read)
            call.answer_frame(
                write_single_fetched(call.version, call.header.correlation_id, fetched, records)
            )
        else:
            response = FetchResponse(session_id=session_id, responses=tuple(_by_topic(included)))
            if self._hint is not None and any(read.error for read, _ in included):
                response = self._hint(response)
            call.answer(response)

    @property
    def _session_id(self) -> int:
        session = self._context.session
        return NO_SESSION if session is None else session.session_id

    def _answer_in_steps(self) -> Iterator[None]:
        call = self._call
        topics: list[FetchableTopicResponse] = []
        endpoints: dict[int, NodeEndpoint] = {}
        is_answered = False
        try:
            yield
            included = self._included()
            while some := list(islice(included, STEP_PARTITIONS)):
                part = FetchResponse(responses=tuple(_by_topic(some)))
                if self._hint is not None and any(read.error for read, _ in some):
                    part = self._hint(part)
                _join(topics, part.responses)
                endpoints.update({each.node_id: each for each in part.node_endpoints})
                yield
            response = FetchResponse(
                session_id=self._session_id,
                responses=tuple(topics),
                node_endpoints=tuple(endpoints.values()),
            )
            body = yield from write_in_steps(call.complete(response), call.version)
            is_answered = True
            call.answer_body(body)
        finally:
            if not is_answered:
                self.abandon()

    def _included(self) -> Iterator[tuple[PartitionRead, FileRange | CachedRange | Buffer]]:
        """Yield the partitions that the response contains."""
        session, scope = self._context.session, self._context.scope
        # Bytes sent to followers are counted elsewhere.
        is_follower = scope is not None and scope.is_follower
        for index, read in enumerate(self._reads):
            records = self._records.get(index, _NO_RECORDS)
            if session is not None:
                if self._context.is_incremental:
                    if not _is_changed(read, records):
                        continue
                    if records is not _NO_RECORDS:
                        session.move_to_end(read.wanted)
                _record_sent(read)
            if read.error:
                self._call.record_error(read.error)
            elif records is not _NO_RECORDS and read.wanted.hosted is not None and not is_follower:
                read.wanted.hosted.topic.bytes_out += _size(records)
            yield read, records


def _log_of(read: PartitionRead) -> LocalLog | None:
    hosted = read.wanted.hosted
    return None if hosted is None or hosted.log is None else hosted.log.local_log


def _last_batch(records: CachedRange | Buffer) -> tuple[int, BatchHeader] | None:
    return records.last_batch if isinstance(records, CachedRange) else last_header(records)


def _release(records: FileRange | CachedRange | Buffer) -> None:
    if isinstance(records, FileRange | CachedRange):
        records.release()


def _join(topics: list[FetchableTopicResponse], more: Sequence[FetchableTopicResponse]) -> None:
    """Append topics; the first may continue the last one."""
    first = more[0]
    last = topics[-1] if topics else None
    if last is not None and (last.topic, last.topic_id) == (first.topic, first.topic_id):
        topics[-1] = replace(last, partitions=(*last.partitions, *first.partitions))
        more = more[1:]
    topics += more


def _size(records: FileRange | CachedRange | Buffer) -> int:
    return records.length if isinstance(records, FileRange | CachedRange) else len(records)


def _is_changed(read: PartitionRead, records: FileRange | CachedRange | Buffer) -> bool:
    """Whether an incremental response must contain this partition (FT-6)."""
    wanted = read.wanted
    return bool(
        _size(records)
        or read.error
        or read.diverging is not None
        or read.preferred >= 0
        or read.high_watermark != wanted.sent_high_watermark
        or read.log_start_offset != wanted.sent_log_start_offset
    )


def _record_sent(read: PartitionRead) -> None:
    """Remember what the client was sent.

    An error sets -1, so that the partition is sent again once the error is gone.
    """
    read.wanted.sent_high_watermark = read.high_watermark
    read.wanted.sent_log_start_offset = read.log_start_offset


def _is_plain(read: PartitionRead) -> bool:
    return not (read.error or read.aborted) and read.diverging is None and read.preferred < 0


def _single(session_id: int, read: PartitionRead) -> SingleFetched:
    wanted = read.wanted
    return SingleFetched(
        session_id,
        wanted.topic,
        wanted.topic_id or NO_TOPIC_ID,
        wanted.number,
        read.high_watermark,
        read.last_stable_offset,
        read.log_start_offset,
        read.aborted is not None,
    )


def _by_topic(
    included: Sequence[tuple[PartitionRead, FileRange | CachedRange | Buffer]],
) -> Iterator[FetchableTopicResponse]:
    for (topic, topic_id), group in groupby(
        included, lambda each: (each[0].wanted.topic, each[0].wanted.topic_id)
    ):
        yield FetchableTopicResponse(
            topic=topic,
            topic_id=topic_id or NO_TOPIC_ID,
            partitions=tuple(_partition_data(read, records) for read, records in group),
        )


def _partition_data(read: PartitionRead, records: Part) -> PartitionData:
    diverging = read.diverging
    return PartitionData(
        partition_index=read.wanted.number,
        error_code=read.error,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        diverging_epoch=_NOT_DIVERGING
        if diverging is None
        else EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset),
        aborted_transactions=None
        if read.aborted is None
        else tuple(
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in read.aborted
        ),
        preferred_read_replica=read.preferred,
        records=records,
    )
