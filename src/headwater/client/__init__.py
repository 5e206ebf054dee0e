"""Blocking Kafka clients: `Producer`, `Consumer` and `Admin`.

    from headwater.client import Admin, Consumer, Producer

`headwater.client.aio` has the same clients for asyncio, `headwater.client.errors` the exceptions.

Note: the names below are imported on first use, so that a command that lists topics does not load
the consumer.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.client.admin.blocking_admin import Admin
    from headwater.client.admin.config_calls import ConfigChange
    from headwater.client.admin.descriptions import Acl, ConfigResource, NewTopic
    from headwater.client.admin.quorum_calls import RaftVoterEndpoint
    from headwater.client.admin.quota_calls import QUOTA_ANY, QUOTA_DEFAULT
    from headwater.client.admin.scram_user_calls import ScramDeletion, ScramUpsertion
    from headwater.client.assignors import Assignor
    from headwater.client.consumer.blocking_consumer import Consumer
    from headwater.client.consumer.offset_requests import OffsetAndTimestamp
    from headwater.client.consumer.subscription import RebalanceListener
    from headwater.client.group_metadata import ConsumerGroupMetadata, OffsetAndMetadata
    from headwater.client.offset_intervals import OffsetInterval, OffsetIntervals
    from headwater.client.parallel.deduplicator import Deduplicator
    from headwater.client.parallel.parallel_consumer import ParallelConsumer
    from headwater.client.producer.blocking_producer import Producer
    from headwater.client.producer.interceptors import ProducerRecord
    from headwater.client.producer.record_future import RecordFuture, RecordMetadata
    from headwater.client.properties_file import read_properties
    from headwater.common.config_types import ConfigOperation
    from headwater.common.ids import TopicPartition
    from headwater.records.consumer_record import ConsumerRecord
    from headwater.security.authorization.acl_bindings import PatternType, Permission
    from headwater.security.authorization.authorizer import Operation, ResourceKind
    from headwater.security.quotas.quota_entities import QuotaEntity

__all__ = [
    "QUOTA_ANY",
    "QUOTA_DEFAULT",
    "Acl",
    "Admin",
    "Assignor",
    "ConfigChange",
    "ConfigOperation",
    "ConfigResource",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "Deduplicator",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetInterval",
    "OffsetIntervals",
    "Operation",
    "ParallelConsumer",
    "PatternType",
    "Permission",
    "Producer",
    "ProducerRecord",
    "QuotaEntity",
    "RaftVoterEndpoint",
    "RebalanceListener",
    "RecordFuture",
    "RecordMetadata",
    "ResourceKind",
    "ScramDeletion",
    "ScramUpsertion",
    "TopicPartition",
    "read_properties",
]

_HOMES = {
    "Acl": "headwater.client.admin.descriptions",
    "Admin": "headwater.client.admin.blocking_admin",
    "Assignor": "headwater.client.assignors",
    "ConfigChange": "headwater.client.admin.config_calls",
    "ConfigOperation": "headwater.common.config_types",
    "ConfigResource": "headwater.client.admin.descriptions",
    "ConsumerRecord": "headwater.records.consumer_record",
    "Consumer": "headwater.client.consumer.blocking_consumer",
    "ConsumerGroupMetadata": "headwater.client.group_metadata",
    "Deduplicator": "headwater.client.parallel.deduplicator",
    "NewTopic": "headwater.client.admin.descriptions",
    "OffsetAndMetadata": "headwater.client.group_metadata",
    "OffsetAndTimestamp": "headwater.client.consumer.offset_requests",
    "OffsetInterval": "headwater.client.offset_intervals",
    "OffsetIntervals": "headwater.client.offset_intervals",
    "Operation": "headwater.security.authorization.authorizer",
    "ParallelConsumer": "headwater.client.parallel.parallel_consumer",
    "PatternType": "headwater.security.authorization.acl_bindings",
    "Permission": "headwater.security.authorization.acl_bindings",
    "Producer": "headwater.client.producer.blocking_producer",
    "ProducerRecord": "headwater.client.producer.interceptors",
    "QUOTA_ANY": "headwater.client.admin.quota_calls",
    "QUOTA_DEFAULT": "headwater.client.admin.quota_calls",
    "QuotaEntity": "headwater.security.quotas.quota_entities",
    "RaftVoterEndpoint": "headwater.client.admin.quorum_calls",
    "RebalanceListener": "headwater.client.consumer.subscription",
    "RecordFuture": "headwater.client.producer.record_future",
    "RecordMetadata": "headwater.client.producer.record_future",
    "ScramDeletion": "headwater.client.admin.scram_user_calls",
    "ScramUpsertion": "headwater.client.admin.scram_user_calls",
    "ResourceKind": "headwater.security.authorization.authorizer",
    "TopicPartition": "headwater.common.ids",
    "read_properties": "headwater.client.properties_file",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(home), name)
    # Stored, so that this function runs once per name.
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
