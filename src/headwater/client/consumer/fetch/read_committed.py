"""Skip aborted transactions and control batches for read_committed (TX-16).

The broker lists the aborted transactions in the range of a response, each with producer id and
first offset. In offset order, a producer is in an aborted transaction from that offset until its
ABORT marker.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence

from headwater.protocol.messages.fetch import AbortedTransaction
from headwater.records.batch_header import BatchHeader, Buffer
from headwater.records.control_batches import read_control

PlacedBatch = tuple[int, BatchHeader]
"""The position of a batch in the buffer, and its header."""


def without_aborted(
    buffer: Buffer, batches: Iterable[PlacedBatch], aborted: Sequence[AbortedTransaction]
) -> Iterator[PlacedBatch]:
    """The batches that a read_committed consumer sees."""
    coming = [(each.first_offset, each.producer_id) for each in aborted]
    heapq.heapify(coming)
    active: set[int] = set()
    for position, header in batches:
        while coming and coming[0][0] <= header.last_offset:
            active.add(heapq.heappop(coming)[1])
        if header.is_control:
            if header.producer_id in active and _is_abort(buffer, header, position):
                active.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in active):
            yield position, header


def without_control(batches: Iterable[PlacedBatch]) -> Iterator[PlacedBatch]:
    """The batches that a read_uncommitted consumer sees."""
    return ((position, header) for position, header in batches if not header.is_control)


def _is_abort(buffer: Buffer, header: BatchHeader, position: int) -> bool:
    marker = read_control(buffer, header, position)
    return marker is not None and marker.is_abort
