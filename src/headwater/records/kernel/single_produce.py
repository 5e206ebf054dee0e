"""A Produce request with one batch for one partition, as its frame has it.

Nearly every Produce is of this kind, and its cost is paid per request. So the kernel takes its few
fields straight out of the frame, header and all, and puts the answer together from bytes, when all
went well. Whatever else comes is read by `wire`, which also says what is wrong with it.
"""

from typing import NamedTuple


class SingleProduce(NamedTuple):
    """What one batch for one partition is about. The records are a view of the frame."""

    version: int
    correlation_id: int
    acks: int
    # A name as it was sent, or from version 13 on an id.
    topic: bytes
    partition: int
    records: memoryview
