"""Limit the array elements of a request, by API.

A request costs time by the number of its elements, and an element may take three bytes. Kafka 4.4
refuses arrays above 1,000,000 elements; here all arrays of a request count together, tagged fields
included, and the reader refuses a request at the length field that exceeds the limit.

APIs whose requests grow with the partitions of a client or a broker take
`headwater.request.elements.max`, but those that are answered in one piece (see `slices`) fewer. The
others name topics, groups, resources or users, one by one. On the listener of the brokers none of
this counts for a peer that is authorized as one: a follower may fetch any number of partitions.
"""

from collections.abc import Iterable
from typing import Final

from headwater.model.broker_settings import BrokerSettings
from headwater.wire.api_key import ApiKey

NAMED_ELEMENTS_MAX: Final = 10_000
"""Kafka's tools and the common admin consoles send at most one element for each group or topic."""

WHOLE_ELEMENTS_MAX: Final = 20_000
"""Of requests that are answered in one piece: five times the partitions that Kafka recommends for a
broker, and about 100 ms of the loop's time."""

UNTRUSTED_ELEMENTS_MAX: Final = 1_000
"""Of requests between brokers, when the peer is not authorized to send them."""

_IN_SLICES: Final = frozenset(
    {
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DELETE_RECORDS,
    }
)
_WHOLE: Final = frozenset(
    {
        # In slices, but the response has a kilobyte for each topic.
        ApiKey.CREATE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_DELETE,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
    }
)


def elements_max(settings: BrokerSettings, served: Iterable[ApiKey]) -> dict[ApiKey, int]:
    """The limit of each API."""
    largest = settings.headwater_request_elements_max

    def limit(key: ApiKey) -> int:
        if key in _IN_SLICES:
            return largest
        return min(largest, WHOLE_ELEMENTS_MAX if key in _WHOLE else NAMED_ELEMENTS_MAX)

    return {key: limit(key) for key in served}
