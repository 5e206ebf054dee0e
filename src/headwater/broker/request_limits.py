"""Limit the array elements of a request, by API.

A request costs time by the number of its elements, and an element may take three bytes. Kafka 4.4
refuses arrays above 1,000,000 elements; here all arrays of a request count together, tagged fields
included, and the reader refuses a request at the length field that exceeds the limit.

APIs whose requests grow with the partitions of a client or a broker take
`headwater.request.elements.max`. The others name topics, groups, resources or users, one by one.
"""

from collections.abc import Iterable
from typing import Final

from headwater.model.broker_settings import BrokerSettings
from headwater.wire.api_key import ApiKey

NAMED_ELEMENTS_MAX: Final = 10_000
"""Kafka's tools and the common admin consoles send at most one element for each group or topic."""

UNTRUSTED_ELEMENTS_MAX: Final = 1_000
"""Of requests between brokers, when the peer is not authorized to send them."""

_BY_PARTITION: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_DELETE,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CREATE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_RECORDS,
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
    return {
        key: largest if key in _BY_PARTITION else min(largest, NAMED_ELEMENTS_MAX) for key in served
    }
