"""Produce request of one batch for one partition, parsed from its frame.

Nearly every Produce is like this, and its cost is paid per request. So the kernel takes the few
fields directly from the frame, header included, and assembles the success response from bytes. All
other requests go through `headwater.protocol`, which also reports their errors.
"""

from typing import NamedTuple


class SingleProduce(NamedTuple):
    """Fields of a single Produce. The records are a view of the frame."""

    version: int
    correlation_id: int
    acks: int
    # Topic name as sent, or from version 13 on a topic id.
    topic: bytes
    partition: int
    records: memoryview
