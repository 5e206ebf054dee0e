"""Decompression bombs are rejected, and the broker's memory does not grow."""

import pytest

from headwater.testing import EmbeddedBroker
from tests.fuzz.bombs import bombard

ALLOWED_BYTES = 100 << 20


@pytest.mark.parametrize("count", [24, pytest.param(1_000, marks=pytest.mark.slow)])
def test_decompression_bombs_leave_no_memory_behind(count: int) -> None:
    with EmbeddedBroker() as broker:
        grown_bytes = bombard(broker, count=count, say=print)
        assert grown_bytes < ALLOWED_BYTES, f"the broker has grown by {grown_bytes >> 20} MiB"
        assert "failed" not in broker.log_text
