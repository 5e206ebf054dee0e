"""Records are not copied on their way through a message, and files are not read."""

import pytest

from headwater.protocol.codec import read, write, write_response
from headwater.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from headwater.protocol.send_parts import Part, part_bytes
from tests.unit.protocol.bytes_of import joined, written


class InAFile:
    """File range with the records of a fetch."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.length = len(content)


def produce(records: bytes) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=memoryview(records))
    return ProduceRequest(topic_data=(TopicProduceData(name="t", partition_data=(data,)),))


def fetched(*records: Part | None) -> FetchResponse:
    partitions = tuple(
        PartitionData(partition_index=index, records=each) for index, each in enumerate(records)
    )
    return FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=partitions),))


def as_sent(parts: list[Part]) -> bytes:
    return joined([part.content if isinstance(part, InAFile) else part for part in parts])


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_produced_records_are_a_writable_view_of_the_frame(version: int) -> None:
    """The log stamps the base offset into it."""
    frame = bytearray(written(produce(b"records"), version))
    request = read(ProduceRequest, version, memoryview(frame))
    records = request.topic_data[0].partition_data[0].records
    assert records is not None
    records[:3] = b"REC"
    assert b"RECords" in frame


@pytest.mark.parametrize("version", range(4, 19))
def test_file_range_is_a_part_between_bytes_and_counts_in_the_size(version: int) -> None:
    first, second = InAFile(b"x" * 3000), InAFile(b"yz")
    parts = write_response(fetched(first, None, second, b"", b"copied"), version)
    assert [part for part in parts if isinstance(part, InAFile)] == [first, second]
    plain = written(fetched(b"x" * 3000, None, b"yz", b"", b"copied"), version)
    assert as_sent(parts) == plain
    assert sum(part_bytes(part) for part in parts) == len(plain)


def test_long_records_are_not_copied_and_short_ones_are() -> None:
    long, short = b"x" * 5000, b"y" * 10
    parts = write(fetched(long, short), 12)
    assert [part for part in parts if part is long] == [long]
    assert len(parts) == 3


def test_empty_file_range_is_a_part_too() -> None:
    """The sender must release its hold."""
    empty = InAFile(b"")
    assert empty in write(fetched(empty), 12)
