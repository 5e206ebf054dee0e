"""Limit the array elements of a request, by API.

A request costs time by its number of elements, and an element may take as few as three bytes. Kafka
4.4 rejects arrays above 1,000,000 elements; here all arrays of a request count together, tagged
fields included, and the decoder rejects a request at the length field that exceeds the limit.

APIs that are answered in slices (see `request_slices`) get the full limit,
`headwater.request.elements.max`. APIs that are answered in one piece, at about 5 us per element,
and APIs about groups, resources or users get a fifth. Produce, whose elements cost most, gets a
tenth: by default as many partitions as Kafka recommends for a whole broker. None of this applies to
authorized brokers on the inter-broker listener: a follower may fetch any number of partitions.
"""

from collections.abc import Iterable
from typing import Final

from headwater.common.settings.broker_settings import BrokerSettings
from headwater.protocol.api_key import ApiKey

UNTRUSTED_ELEMENTS_MAX: Final = 1_000
"""For inter-broker requests of clients that are not authorized to send them."""

_LARGEST: Final = frozenset(
    {
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DELETE_RECORDS,
    }
)
"""Answered in slices, with a small response per element."""


def elements_max(settings: BrokerSettings, served: Iterable[ApiKey]) -> dict[ApiKey, int]:
    """Return the limit of each API."""
    largest = settings.headwater_request_elements_max

    def limit(key: ApiKey) -> int:
        if key is ApiKey.PRODUCE:
            return largest // 10
        return largest if key in _LARGEST else largest // 5

    return {key: limit(key) for key in served}
