"""The partition of a record with a key: the choice of Kafka's own producer."""

import pytest

from headwater.client.producer.partitioner import partition_for_key


# murmur2 values of Kafka's UtilsTest.testMurmur2, made positive, modulo 12.
@pytest.mark.parametrize(
    ("key", "partition"),
    [
        (b"21", (-973932308 & 0x7FFFFFFF) % 12),
        (b"foobar", (-790332482 & 0x7FFFFFFF) % 12),
        (b"a-little-bit-long-string", (-985981536 & 0x7FFFFFFF) % 12),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", (-58897971 & 0x7FFFFFFF) % 12),
        (b"abc", (479470107 & 0x7FFFFFFF) % 12),
    ],
)
def test_a_key_chooses_the_partition_of_kafkas_producer(key: bytes, partition: int) -> None:
    assert partition_for_key(key, 12) == partition
