"""The records of the metadata log, in all versions of Kafka 4.1.

Their classes have Kafka's names and fields; `metadata_record_serde` writes and reads them.
"""

from typing import Final

from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.schema import many, one, protocol_message


@protocol_message
class RegisteredBrokerEndpoint:
    name: str = one("string", default="")
    host: str = one("string", default="")
    port: int = one("uint16", default=0)
    security_protocol: int = one("int16", default=0)


@protocol_message
class RegisteredBrokerFeature:
    name: str = one("string", default="")
    min_supported_version: int = one("int16", default=0)
    max_supported_version: int = one("int16", default=0)


@protocol_message
class RegisterBrokerRecord:
    broker_id: int = one("int32", default=0)
    is_migrating_zk_broker: bool = one("bool", default=False, since=2)
    incarnation_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    broker_epoch: int = one("int64", default=0)
    end_points: tuple[RegisteredBrokerEndpoint, ...] = many(RegisteredBrokerEndpoint, default=())
    features: tuple[RegisteredBrokerFeature, ...] = many(RegisteredBrokerFeature, default=())
    rack: str | None = one("string", default="", nullable_since=0)
    fenced: bool = one("bool", default=True)
    in_controlled_shutdown: bool = one("bool", default=False, since=1)
    log_dirs: tuple[TopicId, ...] = many("uuid", default=(), since=3, tag=0, tag_since=3)


@protocol_message
class UnregisterBrokerRecord:
    broker_id: int = one("int32", default=0)
    broker_epoch: int = one("int64", default=0)


@protocol_message
class TopicRecord:
    name: str = one("string", default="")
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID)


@protocol_message
class PartitionRecord:
    partition_id: int = one("int32", default=-1)
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    replicas: tuple[int, ...] = many("int32", default=())
    isr: tuple[int, ...] = many("int32", default=())
    removing_replicas: tuple[int, ...] = many("int32", default=())
    adding_replicas: tuple[int, ...] = many("int32", default=())
    leader: int = one("int32", default=-1)
    leader_recovery_state: int = one("int8", default=0, tag=0)
    leader_epoch: int = one("int32", default=-1)
    partition_epoch: int = one("int32", default=-1)
    directories: tuple[TopicId, ...] = many("uuid", default=(), since=1)
    eligible_leader_replicas: tuple[int, ...] | None = many(
        "int32", default=None, since=2, nullable_since=2, tag=1, tag_since=2
    )
    last_known_elr: tuple[int, ...] | None = many(
        "int32", default=None, since=2, nullable_since=2, tag=2, tag_since=2
    )


@protocol_message
class ConfigRecord:
    resource_type: int = one("int8", default=0)
    resource_name: str = one("string", default="")
    name: str = one("string", default="")
    value: str | None = one("string", default="", nullable_since=0)


@protocol_message
class PartitionChangeRecord:
    partition_id: int = one("int32", default=-1)
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    isr: tuple[int, ...] | None = many("int32", default=None, nullable_since=0, tag=0)
    leader: int = one("int32", default=-2, tag=1)
    replicas: tuple[int, ...] | None = many("int32", default=None, nullable_since=0, tag=2)
    removing_replicas: tuple[int, ...] | None = many("int32", default=None, nullable_since=0, tag=3)
    adding_replicas: tuple[int, ...] | None = many("int32", default=None, nullable_since=0, tag=4)
    leader_recovery_state: int = one("int8", default=-1, tag=5)
    directories: tuple[TopicId, ...] | None = many(
        "uuid", default=None, since=1, nullable_since=1, tag=8, tag_since=1
    )
    eligible_leader_replicas: tuple[int, ...] | None = many(
        "int32", default=None, since=2, nullable_since=2, tag=6, tag_since=2
    )
    last_known_elr: tuple[int, ...] | None = many(
        "int32", default=None, since=2, nullable_since=2, tag=7, tag_since=2
    )


@protocol_message
class FenceBrokerRecord:
    id: int = one("int32", default=0)
    epoch: int = one("int64", default=0)


@protocol_message
class UnfenceBrokerRecord:
    id: int = one("int32", default=0)
    epoch: int = one("int64", default=0)


@protocol_message
class RemoveTopicRecord:
    topic_id: TopicId = one("uuid", default=NO_TOPIC_ID)


@protocol_message
class DelegationTokenRecord:
    owner: str = one("string", default="")
    requester: str = one("string", default="")
    renewers: tuple[str, ...] = many("string", default=())
    issue_timestamp: int = one("int64", default=0)
    max_timestamp: int = one("int64", default=0)
    expiration_timestamp: int = one("int64", default=0)
    token_id: str = one("string", default="")


@protocol_message
class UserScramCredentialRecord:
    name: str = one("string", default="")
    mechanism: int = one("int8", default=0)
    salt: bytes = one("bytes", default=b"")
    stored_key: bytes = one("bytes", default=b"")
    server_key: bytes = one("bytes", default=b"")
    iterations: int = one("int32", default=0)


@protocol_message
class FeatureLevelRecord:
    name: str = one("string", default="")
    feature_level: int = one("int16", default=0)


@protocol_message
class ClientQuotaEntityData:
    entity_type: str = one("string", default="")
    entity_name: str | None = one("string", default="", nullable_since=0)


@protocol_message
class ClientQuotaRecord:
    entity: tuple[ClientQuotaEntityData, ...] = many(ClientQuotaEntityData, default=())
    key: str = one("string", default="")
    value: float = one("float64", default=0.0)
    remove: bool = one("bool", default=False)


@protocol_message
class ProducerIdsRecord:
    broker_id: int = one("int32", default=0)
    broker_epoch: int = one("int64", default=-1)
    next_producer_id: int = one("int64", default=0)


@protocol_message
class BrokerRegistrationChangeRecord:
    broker_id: int = one("int32", default=0)
    broker_epoch: int = one("int64", default=0)
    fenced: int = one("int8", default=0, tag=0)
    in_controlled_shutdown: int = one("int8", default=0, since=1, tag=1, tag_since=1)
    log_dirs: tuple[TopicId, ...] = many("uuid", default=(), since=2, tag=2, tag_since=2)


@protocol_message
class AccessControlEntryRecord:
    id: TopicId = one("uuid", default=NO_TOPIC_ID)
    resource_type: int = one("int8", default=0)
    resource_name: str = one("string", default="")
    pattern_type: int = one("int8", default=0)
    principal: str = one("string", default="")
    host: str = one("string", default="")
    operation: int = one("int8", default=0)
    permission_type: int = one("int8", default=0)


@protocol_message
class RemoveAccessControlEntryRecord:
    id: TopicId = one("uuid", default=NO_TOPIC_ID)


@protocol_message
class NoOpRecord:
    """NoOpRecord has no fields."""


@protocol_message
class ZkMigrationStateRecord:
    zk_migration_state: int = one("int8", default=0)


@protocol_message
class RemoveUserScramCredentialRecord:
    name: str = one("string", default="")
    mechanism: int = one("int8", default=0)


@protocol_message
class BeginTransactionRecord:
    name: str | None = one("string", default=None, nullable_since=0, tag=0)


@protocol_message
class EndTransactionRecord:
    """EndTransactionRecord has no fields."""


@protocol_message
class AbortTransactionRecord:
    reason: str | None = one("string", default=None, nullable_since=0, tag=0)


@protocol_message
class RemoveDelegationTokenRecord:
    token_id: str = one("string", default="")


@protocol_message
class RegisteredControllerEndpoint:
    name: str = one("string", default="")
    host: str = one("string", default="")
    port: int = one("uint16", default=0)
    security_protocol: int = one("int16", default=0)


@protocol_message
class RegisteredControllerFeature:
    name: str = one("string", default="")
    min_supported_version: int = one("int16", default=0)
    max_supported_version: int = one("int16", default=0)


@protocol_message
class RegisterControllerRecord:
    controller_id: int = one("int32", default=0)
    incarnation_id: TopicId = one("uuid", default=NO_TOPIC_ID)
    zk_migration_ready: bool = one("bool", default=False)
    end_points: tuple[RegisteredControllerEndpoint, ...] = many(
        RegisteredControllerEndpoint, default=()
    )
    features: tuple[RegisteredControllerFeature, ...] = many(
        RegisteredControllerFeature, default=()
    )


@protocol_message
class ClearElrRecord:
    topic_name: str = one("string", default="")


MetadataRecord = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
    | RemoveTopicRecord
    | DelegationTokenRecord
    | UserScramCredentialRecord
    | FeatureLevelRecord
    | ClientQuotaRecord
    | ProducerIdsRecord
    | BrokerRegistrationChangeRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | NoOpRecord
    | ZkMigrationStateRecord
    | RemoveUserScramCredentialRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
    | RemoveDelegationTokenRecord
    | RegisterControllerRecord
    | ClearElrRecord
)

RECORD_TYPES: Final[dict[int, type[MetadataRecord]]] = {
    0: RegisterBrokerRecord,
    1: UnregisterBrokerRecord,
    2: TopicRecord,
    3: PartitionRecord,
    4: ConfigRecord,
    5: PartitionChangeRecord,
    7: FenceBrokerRecord,
    8: UnfenceBrokerRecord,
    9: RemoveTopicRecord,
    10: DelegationTokenRecord,
    11: UserScramCredentialRecord,
    12: FeatureLevelRecord,
    14: ClientQuotaRecord,
    15: ProducerIdsRecord,
    17: BrokerRegistrationChangeRecord,
    18: AccessControlEntryRecord,
    19: RemoveAccessControlEntryRecord,
    20: NoOpRecord,
    21: ZkMigrationStateRecord,
    22: RemoveUserScramCredentialRecord,
    23: BeginTransactionRecord,
    24: EndTransactionRecord,
    25: AbortTransactionRecord,
    26: RemoveDelegationTokenRecord,
    27: RegisterControllerRecord,
    28: ClearElrRecord,
}
"""Record classes by Kafka's apiKey."""

OLDEST_AND_NEWEST: Final[dict[type[MetadataRecord], tuple[int, int]]] = {
    RegisterBrokerRecord: (0, 3),
    UnregisterBrokerRecord: (0, 0),
    TopicRecord: (0, 0),
    PartitionRecord: (0, 2),
    ConfigRecord: (0, 0),
    PartitionChangeRecord: (0, 2),
    FenceBrokerRecord: (0, 0),
    UnfenceBrokerRecord: (0, 0),
    RemoveTopicRecord: (0, 0),
    DelegationTokenRecord: (0, 0),
    UserScramCredentialRecord: (0, 0),
    FeatureLevelRecord: (0, 0),
    ClientQuotaRecord: (0, 0),
    ProducerIdsRecord: (0, 0),
    BrokerRegistrationChangeRecord: (0, 2),
    AccessControlEntryRecord: (0, 0),
    RemoveAccessControlEntryRecord: (0, 0),
    NoOpRecord: (0, 0),
    ZkMigrationStateRecord: (0, 0),
    RemoveUserScramCredentialRecord: (0, 0),
    BeginTransactionRecord: (0, 0),
    EndTransactionRecord: (0, 0),
    AbortTransactionRecord: (0, 0),
    RemoveDelegationTokenRecord: (0, 0),
    RegisterControllerRecord: (0, 0),
    ClearElrRecord: (0, 0),
}
"""Versions of each record that Kafka 4.1 reads."""
