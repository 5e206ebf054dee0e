"""APIs that Headwater can encode and decode, with the versions of Kafka 4.1.

Whether a broker *serves* an API is decided elsewhere: a broker announces the APIs that it has
handlers for. Notes:

- Produce is announced from version 0 on, although 0 to 2 close the connection, as in Kafka
  (KAFKA-18659): librdkafka treats a missing version 0 as a broker that cannot compress, and uses
  the newest version anyway.
- The newest version of some APIs is unstable. It is announced and served only with
  `unstable.api.versions.enable`.
- The four requests of the ZooKeeper era, 4 to 7, are sent between Headwater brokers only, so one
  version of each is enough. The same goes for AlterPartition.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from headwater.protocol.api_key import ApiKey

_NEVER: Final = 32767
_PRODUCE_ANNOUNCED_SINCE: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """API and its versions, including unstable ones."""

    key: ApiKey
    oldest: int
    newest: int
    flexible_since: int
    newest_is_unstable: bool
    between_brokers: bool

    @property
    def name(self) -> str:
        """Kafka's name: `ListOffsets`."""
        return "".join(word.capitalize() for word in self.key.name.split("_"))

    def is_flexible(self, version: int) -> bool:
        """Return whether the version has compact lengths and tagged fields."""
        return version >= self.flexible_since

    def newest_served(self, *, unstable: bool) -> int:
        return self.newest if unstable or not self.newest_is_unstable else self.newest - 1

    def serves(self, version: int, *, unstable: bool) -> bool:
        return self.oldest <= version <= self.newest_served(unstable=unstable)

    @property
    def announced_since(self) -> int:
        return _PRODUCE_ANNOUNCED_SINCE if self.key is ApiKey.PRODUCE else self.oldest


def _row(
    key: ApiKey,
    oldest: int,
    newest: int,
    *,
    flexible_since: int | None,
    unstable: bool = False,
    between_brokers: bool = False,
) -> Api:
    return Api(
        key=key,
        oldest=oldest,
        newest=newest,
        flexible_since=_NEVER if flexible_since is None else flexible_since,
        newest_is_unstable=unstable,
        between_brokers=between_brokers,
    )


_ROWS: Final = (
    _row(ApiKey.PRODUCE, 3, 13, flexible_since=9),
    _row(ApiKey.FETCH, 4, 18, flexible_since=12),
    _row(ApiKey.LIST_OFFSETS, 1, 10, flexible_since=6),
    _row(ApiKey.METADATA, 0, 13, flexible_since=9),
    _row(ApiKey.LEADER_AND_ISR, 7, 7, flexible_since=4, between_brokers=True),
    _row(ApiKey.STOP_REPLICA, 4, 4, flexible_since=2, between_brokers=True),
    _row(ApiKey.UPDATE_METADATA, 8, 8, flexible_since=6, between_brokers=True),
    _row(ApiKey.CONTROLLED_SHUTDOWN, 3, 3, flexible_since=3, between_brokers=True),
    _row(ApiKey.OFFSET_COMMIT, 2, 10, flexible_since=8, unstable=True),
    _row(ApiKey.OFFSET_FETCH, 1, 10, flexible_since=6, unstable=True),
    _row(ApiKey.FIND_COORDINATOR, 0, 6, flexible_since=3),
    _row(ApiKey.JOIN_GROUP, 0, 9, flexible_since=6),
    _row(ApiKey.HEARTBEAT, 0, 4, flexible_since=4),
    _row(ApiKey.LEAVE_GROUP, 0, 5, flexible_since=4),
    _row(ApiKey.SYNC_GROUP, 0, 5, flexible_since=4),
    _row(ApiKey.DESCRIBE_GROUPS, 0, 6, flexible_since=5),
    _row(ApiKey.LIST_GROUPS, 0, 5, flexible_since=3),
    _row(ApiKey.SASL_HANDSHAKE, 0, 1, flexible_since=None),
    _row(ApiKey.API_VERSIONS, 0, 4, flexible_since=3),
    _row(ApiKey.CREATE_TOPICS, 2, 7, flexible_since=5),
    _row(ApiKey.DELETE_TOPICS, 1, 6, flexible_since=4),
    _row(ApiKey.DELETE_RECORDS, 0, 2, flexible_since=2),
    _row(ApiKey.INIT_PRODUCER_ID, 0, 6, flexible_since=2, unstable=True),
    _row(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, flexible_since=4),
    _row(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, flexible_since=3),
    _row(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, flexible_since=3),
    _row(ApiKey.END_TXN, 0, 5, flexible_since=3),
    _row(ApiKey.WRITE_TXN_MARKERS, 1, 1, flexible_since=1, between_brokers=True),
    _row(ApiKey.TXN_OFFSET_COMMIT, 0, 5, flexible_since=3),
    _row(ApiKey.DESCRIBE_ACLS, 1, 3, flexible_since=2),
    _row(ApiKey.CREATE_ACLS, 1, 3, flexible_since=2),
    _row(ApiKey.DELETE_ACLS, 1, 3, flexible_since=2),
    _row(ApiKey.DESCRIBE_CONFIGS, 1, 4, flexible_since=4),
    _row(ApiKey.ALTER_CONFIGS, 0, 2, flexible_since=2),
    _row(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, flexible_since=2),
    _row(ApiKey.DESCRIBE_LOG_DIRS, 1, 4, flexible_since=2),
    _row(ApiKey.SASL_AUTHENTICATE, 0, 2, flexible_since=2),
    _row(ApiKey.CREATE_PARTITIONS, 0, 3, flexible_since=2),
    _row(ApiKey.CREATE_DELEGATION_TOKEN, 1, 3, flexible_since=2),
    _row(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2, flexible_since=2),
    _row(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2, flexible_since=2),
    _row(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3, flexible_since=2),
    _row(ApiKey.DELETE_GROUPS, 0, 2, flexible_since=2),
    _row(ApiKey.ELECT_LEADERS, 0, 2, flexible_since=2),
    _row(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, flexible_since=1),
    _row(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, flexible_since=0),
    _row(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, flexible_since=0),
    _row(ApiKey.OFFSET_DELETE, 0, 0, flexible_since=None),
    _row(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, flexible_since=1),
    _row(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, flexible_since=1),
    _row(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, flexible_since=0),
    _row(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, flexible_since=0),
    _row(ApiKey.VOTE, 0, 2, flexible_since=0, between_brokers=True),
    _row(ApiKey.BEGIN_QUORUM_EPOCH, 0, 1, flexible_since=1, between_brokers=True),
    _row(ApiKey.END_QUORUM_EPOCH, 0, 1, flexible_since=1, between_brokers=True),
    _row(ApiKey.DESCRIBE_QUORUM, 0, 2, flexible_since=0),
    _row(ApiKey.ALTER_PARTITION, 3, 3, flexible_since=0, between_brokers=True),
    _row(ApiKey.UPDATE_FEATURES, 0, 2, flexible_since=0),
    _row(ApiKey.ENVELOPE, 0, 0, flexible_since=0, between_brokers=True),
    _row(ApiKey.FETCH_SNAPSHOT, 0, 1, flexible_since=0, between_brokers=True),
    _row(ApiKey.DESCRIBE_CLUSTER, 0, 2, flexible_since=0),
    _row(ApiKey.DESCRIBE_PRODUCERS, 0, 0, flexible_since=0),
    _row(ApiKey.BROKER_REGISTRATION, 0, 4, flexible_since=0, between_brokers=True),
    _row(ApiKey.BROKER_HEARTBEAT, 0, 1, flexible_since=0, between_brokers=True),
    _row(ApiKey.UNREGISTER_BROKER, 0, 0, flexible_since=0),
    _row(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, flexible_since=0),
    _row(ApiKey.LIST_TRANSACTIONS, 0, 2, flexible_since=0),
    _row(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, flexible_since=0, between_brokers=True),
    _row(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, flexible_since=0),
    _row(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, flexible_since=0),
    _row(ApiKey.CONTROLLER_REGISTRATION, 0, 0, flexible_since=0, between_brokers=True),
    _row(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, flexible_since=0),
    _row(ApiKey.PUSH_TELEMETRY, 0, 0, flexible_since=0),
    _row(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, 0, flexible_since=0, between_brokers=True),
    _row(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, flexible_since=0),
    _row(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, flexible_since=0),
    _row(ApiKey.ADD_RAFT_VOTER, 0, 0, flexible_since=0),
    _row(ApiKey.REMOVE_RAFT_VOTER, 0, 0, flexible_since=0),
    _row(ApiKey.UPDATE_RAFT_VOTER, 0, 0, flexible_since=0, between_brokers=True),
)

# Also looked up by plain integers: an IntEnum equals its number.
APIS: Final[Mapping[int, Api]] = MappingProxyType({row.key: row for row in _ROWS})
