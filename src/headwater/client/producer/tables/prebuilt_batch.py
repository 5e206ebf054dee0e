"""Send an encoded record batch as it is, for mirrors that do not decode batches.

Note: codec, records and timestamps are kept; the producer's settings for them have no effect. Only
producer id, epoch, sequence and CRC are rewritten when the batch is sent.
"""

from headwater.client.errors import InvalidRecord, MessageTooLarge
from headwater.client.producer.partition_queues import PlacedBatch
from headwater.client.producer.producer_batch import ProducerBatch
from headwater.client.producer.producer_core import ProducerCore
from headwater.common.exceptions import BatchError
from headwater.records.batch_header import read_header


def whole_batch(core: ProducerCore, topic: str, partition: int, content: bytearray) -> PlacedBatch:
    """Check the batch and prepare it for the accumulator."""
    try:
        header = read_header(content)
    except BatchError as error:
        raise InvalidRecord(f"not a record batch: {error}") from error
    if header.size_bytes != len(content):
        raise InvalidRecord(
            f"the batch has {header.size_bytes} bytes, but {len(content)} were given"
        )
    if header.is_control or header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord("cannot send a control batch or a batch with gaps in its offsets")
    if not core.accumulator.memory.fits(len(content)):
        raise MessageTooLarge(
            f"a batch of {len(content)} bytes exceeds buffer.memory ({core.settings.buffer_memory})"
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
