"""Kafka clients: `Producer`, `Consumer` and `Admin`, blocking.

    from headwater.client import Admin, Consumer, Producer

`headwater.client.aio` has the same for asyncio, `headwater.client.errors` what they raise.

What a reader would get wrong: the names below are loaded when they are first used. Who lists topics
at a terminal should not wait for a consumer to be loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.client.admin.blocking_admin import Admin
    from headwater.client.admin.config_calls import ConfigChange
    from headwater.client.admin.descriptions import Acl, ConfigResource, NewTopic
    from headwater.client.admin.user_calls import ScramDeletion, ScramUpsertion
    from headwater.client.consumer.blocking_consumer import Consumer
    from headwater.client.consumer.offsets import OffsetAndTimestamp
    from headwater.client.consumer.subscription import RebalanceListener
    from headwater.client.group_metadata import ConsumerGroupMetadata, OffsetAndMetadata
    from headwater.client.parallel.deduplicator import Deduplicator
    from headwater.client.parallel.parallel_consumer import ParallelConsumer
    from headwater.client.producer.blocking_producer import Producer
    from headwater.client.producer.record_future import RecordFuture, RecordMetadata
    from headwater.model.ids import TopicPartition
    from headwater.records.consumed import ConsumedRecord

__all__ = [
    "Acl",
    "Admin",
    "ConfigChange",
    "ConfigResource",
    "ConsumedRecord",
    "Consumer",
    "ConsumerGroupMetadata",
    "Deduplicator",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "ParallelConsumer",
    "Producer",
    "RebalanceListener",
    "RecordFuture",
    "RecordMetadata",
    "ScramDeletion",
    "ScramUpsertion",
    "TopicPartition",
]

_HOMES = {
    "Acl": "headwater.client.admin.descriptions",
    "Admin": "headwater.client.admin.blocking_admin",
    "ConfigChange": "headwater.client.admin.config_calls",
    "ConfigResource": "headwater.client.admin.descriptions",
    "ConsumedRecord": "headwater.records.consumed",
    "Consumer": "headwater.client.consumer.blocking_consumer",
    "ConsumerGroupMetadata": "headwater.client.group_metadata",
    "Deduplicator": "headwater.client.parallel.deduplicator",
    "NewTopic": "headwater.client.admin.descriptions",
    "OffsetAndMetadata": "headwater.client.group_metadata",
    "OffsetAndTimestamp": "headwater.client.consumer.offsets",
    "ParallelConsumer": "headwater.client.parallel.parallel_consumer",
    "Producer": "headwater.client.producer.blocking_producer",
    "RebalanceListener": "headwater.client.consumer.subscription",
    "RecordFuture": "headwater.client.producer.record_future",
    "RecordMetadata": "headwater.client.producer.record_future",
    "ScramDeletion": "headwater.client.admin.user_calls",
    "ScramUpsertion": "headwater.client.admin.user_calls",
    "TopicPartition": "headwater.model.ids",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(home), name)
    # Kept, so that this function is asked once for each.
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
