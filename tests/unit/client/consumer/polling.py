"""Polls until what a test waits for is there."""

import time

from headwater.client import Consumer, ConsumerRecord

PATIENCE_S = 60


def take(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """So many records at the least, in as many polls as that takes."""
    records: list[ConsumerRecord] = []
    limit_s = time.monotonic() + PATIENCE_S
    while len(records) < count:
        assert time.monotonic() < limit_s, f"got {len(records)} of {count}"
        records += consumer.poll(0.1)
    return records


def take_exactly(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """So many records, and no more came with them."""
    records = take(consumer, count)
    assert len(records) == count
    return records
