"""Limit the array elements of a request, by API.

A request costs time by the number of its elements, and an element may take three bytes. Kafka 4.4
refuses arrays above 1,000,000 elements; here all arrays of a request count together, tagged fields
included, and the reader refuses a request at the length field that exceeds the limit.

APIs that are answered in slices (see `request_slices`) take `max`. Those that
are answered in one piece, which takes about 5 us for each element, and those that name groups,
resources or users take a fifth of it. Produce, which is also read in one piece, takes a tenth: by
default as many partitions as Kafka recommends for a whole broker. On the listener of the brokers
none of this counts for a peer that is authorized as one: a follower may fetch any number of
partitions.
"""

from collections.abc import Iterable
from typing import Final

from headwater.common.settings.broker_settings import BrokerSettings
from headwater.protocol.api_key import ApiKey

UNTRUSTED_ELEMENTS_MAX: Final = 1_000
"""Of requests between brokers, when the peer is not authorized to send them."""

_LARGEST: Final = frozenset(
    {
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DELETE_RECORDS,
    }
)
"""In slices, and with a small response for each element."""


def elements_max(settings: BrokerSettings, served: Iterable[ApiKey]) -> dict[ApiKey, int]:
    """The limit of each API."""
    largest = settings.headwater_request_elements_max

    def limit(key: ApiKey) -> int:
        if key is ApiKey.PRODUCE:
            return largest // 10
        return largest if key in _LARGEST else largest // 5

    return {key: limit(key) for key in served}
