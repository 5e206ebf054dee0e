"""How long somebody waits for one record."""

from typing import cast

import pytest

from headwater.client.errors import KafkaTimeout
from headwater.client.producer.producer_batch import ProducerBatch
from headwater.client.producer.record_future import RecordFuture


class EverSplit:
    """A batch that wakes its waiters again and again, and is never settled."""

    is_done = False
    parts = None

    def __init__(self) -> None:
        self.waits: list[float] = []

    def wait(self, timeout_s: float) -> bool:
        self.waits.append(timeout_s)
        return timeout_s > 0


def test_a_record_whose_batch_is_split_is_not_waited_for_anew() -> None:
    batch = EverSplit()
    with pytest.raises(KafkaTimeout, match=r"within 0.01 s"):
        RecordFuture(cast("ProducerBatch", batch), 0, 0).result(0.01)
    assert batch.waits == sorted(batch.waits, reverse=True)
