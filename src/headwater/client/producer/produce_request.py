"""Build Produce requests.

Note: a batch is compressed here, when it is first sent; producer id, epoch and sequence are written
each time it is sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headwater.client.producer.partition_queues import PartitionQueue
from headwater.client.producer.producer_batch import ProducerBatch
from headwater.client.producer.producer_settings import ProducerSettings
from headwater.common.ids import NO_TOPIC_ID, TopicId
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from headwater.records.batch_header import Codec

_TOPIC_IDS_SINCE: Final = 13
_NEWEST_WITHOUT_IDS: Final = _TOPIC_IDS_SINCE - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A batch in a request, with the topic id at that time."""

    queue: PartitionQueue
    batch: ProducerBatch
    topic_id: TopicId = NO_TOPIC_ID


def produce_request(
    sent: Sequence[Sent], settings: ProducerSettings
) -> tuple[ProduceRequest, int | None]:
    """The request, and its newest possible version (None: any)."""
    by_topic: dict[str, list[PartitionProduceData]] = {}
    for each in sent:
        by_topic.setdefault(each.batch.topic, []).append(
            PartitionProduceData(index=each.batch.partition, records=_content(each, settings))
        )
    ids = {each.batch.topic: each.topic_id for each in sent}
    request = ProduceRequest(
        transactional_id=settings.transactional_id,
        acks=settings.required_acks,
        timeout_ms=settings.request_timeout_ms,
        topic_data=tuple(
            TopicProduceData(name=name, topic_id=ids[name], partition_data=tuple(data))
            for name, data in by_topic.items()
        ),
    )
    return request, _NEWEST_WITHOUT_IDS if NO_TOPIC_ID in ids.values() else None


def _content(sent: Sent, settings: ProducerSettings) -> memoryview:
    batch = sent.batch
    plain_bytes = batch.size_bytes
    is_first = batch.builder is not None
    batch.seal(settings.codec, settings.codec_level)
    if is_first and settings.codec is not Codec.NONE:
        sent.queue.topic.learn_ratio(plain_bytes, batch.size_bytes)
    return batch.stamped(is_transactional=settings.transactional_id is not None)
