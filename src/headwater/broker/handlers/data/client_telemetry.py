"""What clients are told of metrics that they might send (KIP-714).

There is no receiver, so no client is asked for anything. Nothing is remembered of the clients
either: the id of a subscription follows from that of its client.
"""

from typing import Final
from zlib import crc32

from headwater.common.ids import TopicId

PUSH_INTERVAL_MS: Final = 300_000
LARGEST_BYTES: Final = 1_048_576
_SIGN: Final = 1 << 31


def subscription_id(client_instance_id: TopicId) -> int:
    """The same for a client at all times, and signed, as it travels."""
    return (crc32(client_instance_id) ^ _SIGN) - _SIGN
