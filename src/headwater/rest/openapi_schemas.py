"""Schemas of the OpenAPI document, with the names of Confluent's where it has one."""

from collections.abc import Mapping
from typing import Any, Final

Schema = dict[str, Any]

_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
_TEXT: Final[Schema] = {"type": "string"}
_FLAG: Final[Schema] = {"type": "boolean"}
_NUMBER: Final[Schema] = {"type": "integer", "format": "int32", "minimum": 0, "maximum": _INT_MAX}
_ID: Final[Schema] = {"type": "integer", "format": "int32"}
_OFFSET: Final[Schema] = {"type": "integer", "format": "int64", "minimum": 0, "maximum": _LONG_MAX}
_TIME: Final[Schema] = {"type": "string", "format": "date-time"}
_BASE64: Final[Schema] = {"type": "string", "format": "byte"}
_ANY: Final[Schema] = {"nullable": True}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _maybe(schema: Schema) -> Schema:
    return {**schema, "nullable": True}


def _list(items: Schema, *, least: int | None = None) -> Schema:
    found: Schema = {"type": "array", "items": items}
    return found if least is None else {**found, "minItems": least}


def _object(properties: Mapping[str, Schema], *optional: str) -> Schema:
    """An object whose properties are required, except for the named ones."""
    required = [name for name in properties if name not in optional]
    found: Schema = {"type": "object", "properties": dict(properties)}
    return {**found, "required": required} if required else found


def _one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


_LINK: Final = _object({"related": _TEXT})
_PARTITION: Final = {"topic": _TEXT, "partition": _NUMBER}
_FORMAT: Final = _one_of("BINARY", "JSON", "STRING", "AVRO", "JSONSCHEMA", "PROTOBUF")


def _resource(properties: Mapping[str, Schema], *optional: str) -> Schema:
    metadata = _object({"self": _TEXT, "resource_name": _maybe(_TEXT)}, "resource_name")
    head = {"kind": _TEXT, "metadata": metadata, "cluster_id": _TEXT}
    return _object({**head, **properties}, *optional)


def _config(properties: Mapping[str, Schema]) -> Schema:
    synonym = _object({"name": _TEXT, "value": _maybe(_TEXT), "source": _TEXT}, "value")
    return _resource(
        {
            **properties,
            "name": _TEXT,
            "value": _maybe(_TEXT),
            "is_default": _FLAG,
            "is_read_only": _FLAG,
            "is_sensitive": _FLAG,
            "source": _TEXT,
            "synonyms": _list(synonym),
        },
        "value",
    )


_ACL: Final = {
    "resource_type": _one_of(
        "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"
    ),
    "resource_name": _TEXT,
    "pattern_type": _one_of("ANY", "MATCH", "LITERAL", "PREFIXED"),
    "principal": _TEXT,
    "host": _TEXT,
    "operation": _one_of(
        "ANY",
        "ALL",
        "READ",
        "WRITE",
        "CREATE",
        "DELETE",
        "ALTER",
        "DESCRIBE",
        "CLUSTER_ACTION",
        "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
        "IDEMPOTENT_WRITE",
        "CREATE_TOKENS",
        "DESCRIBE_TOKENS",
        "TWO_PHASE_COMMIT",
    ),
    "permission": _one_of("ANY", "DENY", "ALLOW"),
}

_REQUEST_DATA: Final = _maybe(
    _object(
        {
            "type": _FORMAT,
            "subject": _maybe(_TEXT),
            "subject_name_strategy": _maybe(
                {"type": "string", "enum": ["TOPIC_NAME", "RECORD_NAME", "TOPIC_RECORD_NAME", None]}
            ),
            "schema_id": _maybe(_NUMBER),
            "schema_version": _maybe({**_NUMBER, "minimum": 1}),
            "schema": _maybe(_TEXT),
            "data": _ANY,
        },
        "type",
        "subject",
        "subject_name_strategy",
        "schema_id",
        "schema_version",
        "schema",
        "data",
    )
)
_RESPONSE_DATA: Final = _maybe(
    _object(
        {
            "type": _FORMAT,
            "size": _OFFSET,
            "subject": _maybe(_TEXT),
            "schema_id": _maybe(_ID),
            "schema_version": _maybe(_ID),
        },
        "subject",
        "schema_id",
        "schema_version",
    )
)
_RECORD: Final = {
    "partition_id": _maybe(_NUMBER),
    "headers": _list(_object({"name": _TEXT, "value": _maybe(_BASE64)}, "value")),
    "key": _REQUEST_DATA,
    "value": _REQUEST_DATA,
    "timestamp": _maybe(_TIME),
}
_RESULT: Final = {
    "cluster_id": _TEXT,
    "topic_name": _TEXT,
    "partition_id": _ID,
    "offset": {"type": "integer", "format": "int64"},
    "timestamp": _maybe(_TIME),
    "key": _RESPONSE_DATA,
    "value": _RESPONSE_DATA,
}

V2_SCHEMAS: Final[Mapping[str, Schema]] = {
    "Empty": {"type": "object"},
    "Names": _list(_TEXT),
    "TopicMetadata": _object(
        {
            "name": _TEXT,
            "configs": {"type": "object", "additionalProperties": _maybe(_TEXT)},
            "partitions": _list(_ref("PartitionMetadata")),
        }
    ),
    "PartitionMetadata": _object(
        {
            "partition": _ID,
            "leader": _ID,
            "replicas": _list(_object({"broker": _ID, "leader": _FLAG, "in_sync": _FLAG})),
        }
    ),
    "PartitionMetadataList": _list(_ref("PartitionMetadata")),
    "PartitionOffsets": _object({"beginning_offset": _OFFSET, "end_offset": _OFFSET}),
    "BrokerIds": _object({"brokers": _list(_ID)}),
    "ProduceRecords": _object(
        {
            "key_schema": _maybe(_TEXT),
            "key_schema_id": _maybe(_NUMBER),
            "value_schema": _maybe(_TEXT),
            "value_schema_id": _maybe(_NUMBER),
            "records": _list(
                _object(
                    {"key": _ANY, "value": _ANY, "partition": _maybe(_NUMBER)},
                    "key",
                    "value",
                    "partition",
                ),
                least=1,
            ),
        },
        "key_schema",
        "key_schema_id",
        "value_schema",
        "value_schema_id",
    ),
    "ProduceOffsets": _object(
        {
            "offsets": _list(
                _object(
                    {
                        "partition": _maybe(_ID),
                        "offset": _maybe({"type": "integer", "format": "int64"}),
                        "error_code": _maybe(_ID),
                        "error": _maybe(_TEXT),
                    }
                )
            ),
            "key_schema_id": _maybe(_ID),
            "value_schema_id": _maybe(_ID),
        }
    ),
    "NewConsumerInstance": _object(
        {
            "name": _maybe(_TEXT),
            "format": _maybe(
                {
                    "type": "string",
                    "enum": ["binary", "json", "avro", "jsonschema", "protobuf", None],
                }
            ),
            "auto.offset.reset": _maybe(_TEXT),
            "auto.commit.enable": _maybe(_TEXT),
            "fetch.min.bytes": _maybe({**_NUMBER, "minimum": -1}),
            "consumer.request.timeout.ms": _maybe(_NUMBER),
        },
        "name",
        "format",
        "auto.offset.reset",
        "auto.commit.enable",
        "fetch.min.bytes",
        "consumer.request.timeout.ms",
    ),
    "ConsumerInstance": _object({"instance_id": _TEXT, "base_uri": _TEXT}),
    "Subscription": _object(
        {"topics": _list(_TEXT, least=1), "topic_pattern": _maybe(_TEXT)},
        "topics",
        "topic_pattern",
    ),
    "SubscribedTopics": _object({"topics": _list(_TEXT)}),
    "Partitions": _object({"partitions": _list(_object(_PARTITION))}),
    "Positions": _object(
        {
            "offsets": _list(_object({**_PARTITION, "offset": _OFFSET})),
            "timestamps": _list(_object({**_PARTITION, "timestamp": _TIME})),
        },
        "offsets",
        "timestamps",
    ),
    "ConsumedRecords": _list(
        _object({**_PARTITION, "offset": _OFFSET, "key": _ANY, "value": _ANY})
    ),
    "CommitOffsets": _object(
        {
            "offsets": _list(
                _object({**_PARTITION, "offset": _OFFSET, "metadata": _maybe(_TEXT)}, "metadata"),
                least=1,
            )
        }
    ),
    "Committed": _list({"type": "object"}),
    "CommittedOffsets": _object(
        {"offsets": _list(_object({**_PARTITION, "offset": _OFFSET, "metadata": _TEXT}))}
    ),
}

_RESOURCES: Final[Mapping[str, Schema]] = {
    "Cluster": _resource(
        {
            "controller": _LINK,
            "acls": _LINK,
            "brokers": _LINK,
            "broker_configs": _LINK,
            "consumer_groups": _LINK,
            "topics": _LINK,
            "partition_reassignments": _LINK,
        },
        "controller",
    ),
    "Broker": _resource(
        {
            "broker_id": _ID,
            "host": _maybe(_TEXT),
            "port": _maybe(_ID),
            "rack": _maybe(_TEXT),
            "configs": _LINK,
            "partition_replicas": _LINK,
        }
    ),
    "BrokerConfig": _config({"broker_id": _ID}),
    "ClusterConfig": _config({"config_type": _one_of("BROKER")}),
    "TopicConfig": _config({"topic_name": _TEXT}),
    "Topic": _resource(
        {
            "topic_name": _TEXT,
            "is_internal": _FLAG,
            "replication_factor": _ID,
            "partitions_count": _ID,
            "partitions": _LINK,
            "configs": _LINK,
            "partition_reassignments": _LINK,
            "authorized_operations": _list(_TEXT),
        }
    ),
    "Partition": _resource(
        {
            "topic_name": _TEXT,
            "partition_id": _ID,
            "leader": _LINK,
            "replicas": _LINK,
            "reassignment": _LINK,
        },
        "leader",
    ),
    "Replica": _resource(
        {
            "topic_name": _TEXT,
            "partition_id": _ID,
            "broker_id": _ID,
            "is_leader": _FLAG,
            "is_in_sync": _FLAG,
            "broker": _LINK,
        }
    ),
    "Reassignment": _resource(
        {
            "topic_name": _TEXT,
            "partition_id": _ID,
            "adding_replicas": _list(_ID),
            "removing_replicas": _list(_ID),
            "replicas": _LINK,
        }
    ),
    "ConsumerGroup": _resource(
        {
            "consumer_group_id": _TEXT,
            "is_simple": _FLAG,
            "partition_assignor": _TEXT,
            "state": _TEXT,
            "type": _TEXT,
            "is_mixed_consumer_group": _FLAG,
            "coordinator": _LINK,
            "consumers": _LINK,
            "lag_summary": _LINK,
        }
    ),
    "Consumer": _resource(
        {
            "consumer_group_id": _TEXT,
            "consumer_id": _TEXT,
            "instance_id": _maybe(_TEXT),
            "client_id": _TEXT,
            "assignments": _LINK,
        }
    ),
    "ConsumerAssignment": _resource(
        {
            "consumer_group_id": _TEXT,
            "consumer_id": _TEXT,
            "topic_name": _TEXT,
            "partition_id": _ID,
            "partition": _LINK,
            "lag": _LINK,
        }
    ),
    "ConsumerLag": _resource(
        {
            "consumer_group_id": _TEXT,
            "topic_name": _TEXT,
            "partition_id": _ID,
            "consumer_id": _TEXT,
            "instance_id": _maybe(_TEXT),
            "client_id": _TEXT,
            "current_offset": _OFFSET,
            "log_end_offset": _OFFSET,
            "lag": _OFFSET,
        }
    ),
    "Acl": _resource(_ACL),
}

V3_SCHEMAS: Final[Mapping[str, Schema]] = {
    **{f"{name}Data": schema for name, schema in _RESOURCES.items()},
    **{
        f"{name}DataList": _object(
            {
                "kind": _TEXT,
                "metadata": _object({"self": _TEXT, "next": _maybe(_TEXT)}),
                "data": _list(_ref(f"{name}Data")),
            }
        )
        for name in _RESOURCES
    },
    "PartitionWithOffsetsData": _resource(
        {
            "topic_name": _TEXT,
            "partition_id": _ID,
            "earliest_offset": _OFFSET,
            "latest_offset": _OFFSET,
        }
    ),
    "ConsumerGroupLagSummaryData": _resource(
        {
            "consumer_group_id": _TEXT,
            "max_lag_consumer_id": _TEXT,
            "max_lag_instance_id": _maybe(_TEXT),
            "max_lag_client_id": _TEXT,
            "max_lag_topic_name": _TEXT,
            "max_lag_partition_id": _ID,
            "max_lag": _OFFSET,
            "total_lag": _OFFSET,
            "max_lag_consumer": _LINK,
            "max_lag_partition": _LINK,
        }
    ),
    "CreateTopicRequestData": _object(
        {
            "topic_name": _TEXT,
            "partitions_count": {**_NUMBER, "minimum": -1},
            "replication_factor": {**_NUMBER, "minimum": -1, "maximum": 2**15 - 1},
            "replicas_assignments": {
                "type": "object",
                "additionalProperties": _list(_NUMBER, least=1),
            },
            "configs": _list(_object({"name": _TEXT, "value": _maybe(_TEXT)}, "value")),
            "validate_only": _FLAG,
        },
        "partitions_count",
        "replication_factor",
        "replicas_assignments",
        "configs",
        "validate_only",
    ),
    "UpdatePartitionCountRequestData": _object({"partitions_count": {**_NUMBER, "minimum": 1}}),
    "UpdateConfigRequestData": _object({"value": _maybe(_TEXT)}, "value"),
    "AlterConfigBatchRequestData": _object(
        {
            "data": _list(
                _object(
                    {
                        "name": _TEXT,
                        "value": _maybe(_TEXT),
                        "operation": _maybe({"type": "string", "enum": ["SET", "DELETE", None]}),
                    },
                    "value",
                    "operation",
                ),
                least=1,
            ),
            "validate_only": _FLAG,
        },
        "validate_only",
    ),
    "CreateAclRequestData": _object(_ACL),
    "CreateAclRequestDataList": _object({"data": _list(_ref("CreateAclRequestData"), least=1)}),
    "DeletedAcls": _object({"data": _list(_ref("AclData"))}),
    "ProduceRequest": _object(_RECORD, *_RECORD),
    "ProduceResponse": _object(
        {"error_code": _ID, "message": _TEXT, **_RESULT}, "message", *_RESULT
    ),
    "ProduceBatchRequest": _object(
        {
            "entries": _list(
                _object(
                    {"id": {"type": "string", "minLength": 1, "maxLength": 80}, **_RECORD},
                    *_RECORD,
                ),
                least=1,
            )
        }
    ),
    "ProduceBatchResponse": _object(
        {
            "successes": _list(_object({"id": _TEXT, **_RESULT})),
            "failures": _list(_object({"id": _TEXT, "error_code": _ID, "message": _TEXT})),
        }
    ),
}

ERROR: Final = _object({"error_code": _ID, "message": _TEXT})
QUERY_PARAMETERS: Final[Mapping[str, Schema]] = {
    "timeout": {"type": "integer", "description": "Milliseconds to wait for records."},
    "max_bytes": {"type": "integer", "description": "Maximum size of keys and values."},
    **_ACL,
}
PATH_NUMBERS: Final = ("partition_id", "broker_id")
