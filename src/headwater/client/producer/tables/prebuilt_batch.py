"""A batch that is ready, to be sent as it is: for mirrors, which do not open what they copy.

What a reader would get wrong: codec, records and timestamps are kept, and the settings of the
producer for them have no say. Only producer id, epoch, sequence and checksum are written anew when
the batch leaves.
"""

from headwater.client.errors import InvalidRecord, MessageTooLarge
from headwater.client.producer.partition_queues import PlacedBatch
from headwater.client.producer.producer_batch import ProducerBatch
from headwater.client.producer.producer_core import ProducerCore
from headwater.common.exceptions import BatchError
from headwater.records.batch_header import read_header


def whole_batch(core: ProducerCore, topic: str, partition: int, content: bytearray) -> PlacedBatch:
    """The batch in the form of those that wait to be sent. Raises what is wrong with it."""
    try:
        header = read_header(content)
    except BatchError as error:
        raise InvalidRecord(f"this is no record batch: {error}") from error
    if header.size_bytes != len(content):
        raise InvalidRecord(f"{len(content)} bytes, and not the {header.size_bytes} of one batch")
    if header.is_control or header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord("a batch of markers, or with holes, cannot be sent")
    if not core.accumulator.memory.fits(len(content)):
        raise MessageTooLarge(
            f"a batch of {len(content)} bytes is more than buffer.memory "
            f"({core.settings.buffer_memory})"
        )
    batch = ProducerBatch(
        topic,
        partition,
        builder=None,
        lock=core.accumulator.lock,
        created_ms=core.steady_ms(),
        reserved_bytes=len(content),
    )
    batch.adopt(content, header.record_count)
    return core.accumulator.topics[topic].queues[partition], batch
