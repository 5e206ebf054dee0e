"""Partitions of keys, compared with Java's String.hashCode."""

import pytest

from headwater.coordinator.runtime.partition_for_key import partition_for

_MANY = 2**31


@pytest.mark.parametrize(
    ("key", "hash_code"),
    [
        ("", 0),
        ("a", 97),
        ("group-7", 293_427_305),
        ("gr\u00fcppe", -1_233_264_812),
        ("\U0001f600", 1_772_899),
        ("my-very-long-transactional-id-0123456789", -1_283_115_720),
    ],
)
def test_a_key_maps_to_the_partition_that_kafka_uses(key: str, hash_code: int) -> None:
    assert partition_for(key, _MANY) == abs(hash_code)
    assert partition_for(key, 50) == abs(hash_code) % 50


def test_the_hash_without_an_absolute_value_maps_to_the_first_partition() -> None:
    """-2^31 in Java; Kafka uses 0."""
    assert partition_for("polygenelubricants", 7) == 0
