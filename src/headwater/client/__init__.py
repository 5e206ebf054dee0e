"""Kafka clients: `Producer`, `Consumer` and `Admin`, blocking.

    from headwater.client import Admin, Consumer, Producer

`headwater.client.aio` has the same for asyncio, `headwater.client.errors` what they raise.
"""

from headwater.client.admin.blocking_admin import Admin
from headwater.client.admin.config_calls import ConfigChange
from headwater.client.admin.descriptions import Acl, ConfigResource, NewTopic
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
    "TopicPartition",
]
