"""Read the timestamp of the next record of a consumer: its exact lag in time."""

from headwater.client.consumer.offset_range_reader import OffsetRangeReader
from headwater.common.ids import TopicPartition
from headwater.records.arrow_columns import decode_batches


class LagReader(OffsetRangeReader):
    """Fetches one batch per partition; limit it with `max.partition.fetch.bytes`."""

    def first_timestamp_ms(
        self, partition: TopicPartition, offset: int, end_offset: int | None = None
    ) -> int | None:
        """Return the timestamp of the first record at or after an offset, if there is one.

        Without `end_offset`, only the batch with the offset is read, which may have no record, such
        as a transaction marker.
        """
        for fetched in self.read(partition, offset, end_offset or offset + 1):
            records = decode_batches(
                fetched.data, fetched.batches, first_offset=fetched.first_offset
            )
            if len(records):
                value: int = records.column("timestamp")[0].as_py()
                return value
        return None
