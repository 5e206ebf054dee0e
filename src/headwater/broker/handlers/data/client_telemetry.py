"""Shared parts of the client telemetry APIs (KIP-714).

There is no telemetry receiver, so that clients are never asked to push metrics. No state is kept
about clients either: the subscription id is derived from the client instance id.
"""

from typing import Final
from zlib import crc32

from headwater.common.ids import TopicId

PUSH_INTERVAL_MS: Final = 300_000
LARGEST_BYTES: Final = 1_048_576
_SIGN: Final = 1 << 31


def subscription_id(client_instance_id: TopicId) -> int:
    """Return the subscription id of a client: constant, and a signed 32-bit integer."""
    return (crc32(client_instance_id) ^ _SIGN) - _SIGN
