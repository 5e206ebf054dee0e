"""Timeouts of a record future."""

from typing import cast

import pytest

from headwater.client.errors import KafkaTimeout
from headwater.client.producer.producer_batch import ProducerBatch
from headwater.client.producer.record_future import RecordFuture


class EverSplit:
    """A batch that wakes its waiters repeatedly and never completes."""

    is_done = False
    parts = None

    def __init__(self) -> None:
        self.waits: list[float] = []

    def wait(self, timeout_s: float) -> bool:
        self.waits.append(timeout_s)
        return timeout_s > 0


def test_a_split_does_not_restart_the_timeout() -> None:
    batch = EverSplit()
    with pytest.raises(KafkaTimeout, match=r"within 0.01 s"):
        RecordFuture(cast("ProducerBatch", batch), 0, 0).result(0.01)
    assert batch.waits == sorted(batch.waits, reverse=True)
