"""Poll until expected records have arrived."""

import time

from headwater.client import Consumer, ConsumerRecord

TIMEOUT_S = 60


def take(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """At least this many records, in as many polls as needed."""
    records: list[ConsumerRecord] = []
    limit_s = time.monotonic() + TIMEOUT_S
    while len(records) < count:
        assert time.monotonic() < limit_s, f"got {len(records)} of {count}"
        records += consumer.poll(0.1)
    return records


def take_exactly(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """Exactly this many records."""
    records = take(consumer, count)
    assert len(records) == count
    return records
