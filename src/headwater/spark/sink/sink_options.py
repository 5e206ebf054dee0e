"""Read and check the options of the sink before anything is written.

Names and meanings are those of Spark's Kafka connector, except `delivery` and its companions. Note:
`exactly-once` must know which batch of which query it writes. A streaming query provides it; a
batch write names `queryId` and `batchId`. In `foreachBatch` the query id may be left to Spark,
which passes it to tasks.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from headwater.client.client_settings_filter import producer_settings
from headwater.spark.exceptions import InvalidOption
from headwater.spark.formats.avro.avro_options import SINK_NAMES as AVRO
from headwater.spark.formats.avro.avro_options import AvroOptions, AvroTarget, read_avro
from headwater.spark.formats.value_formats import NAMES as FORMATS
from headwater.spark.formats.value_formats import ValueFormat, read_formats
from headwater.spark.options import SparkOptions

_NAMES: Final = (
    "topic",
    "includeHeaders",
    "delivery",
    "transactionalIdPrefix",
    "markerTopic",
    "queryId",
    "batchId",
    *FORMATS,
    *AVRO,
)
# Stands for the id of the query whose `foreachBatch` writes the rows.
ASK_SPARK: Final = "spark"
_SERIALIZED: Final = "keys and values are written as they are; cast them to string or binary"
_NOT_TO_BE_SET: Final = {
    "key.serializer": _SERIALIZED,
    "value.serializer": _SERIALIZED,
    "transactional.id": "each task has its own; set transactionalIdPrefix instead",
}


class Delivery(Enum):
    """Delivery guarantee of a sink after failures and restarts."""

    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Options of the sink."""

    # Hidden in logs, because they may contain credentials.
    client: Mapping[str, str] = field(repr=False)
    # For all rows: the option has precedence over a column.
    topic: str | None = None
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    transactional_id_prefix: str = "headwater"
    # Finished batches are marked as offsets of groups for partition 0 of this topic.
    marker_topic: str | None = None
    # Identity of a batch write; a streaming query has its own.
    query_id: str | None = None
    batch_id: int | None = None
    formats: Mapping[str, ValueFormat] = field(default_factory=dict)
    # Of columns with Avro or Protobuf.
    avro: Mapping[str, AvroOptions] = field(default_factory=dict)
    # Schemas of Avro columns; known when the columns are.
    targets: Mapping[str, AvroTarget] = field(default_factory=dict)


def read_sink_options(given: Mapping[str, str], *, is_streaming: bool) -> SinkOptions:
    """Read the options. Raises `InvalidOption` with the reason in one line."""
    options = SparkOptions(given, "sink", _NAMES)
    client = options.client(_NOT_TO_BE_SET, producer_settings(options.shared))
    options.flag("includeHeaders", default=False)
    topic = _topic(options.get("topic"))
    formats = read_formats(options)
    read = SinkOptions(
        client=client,
        topic=topic,
        delivery=options.choice(
            "delivery", {each.value: each for each in Delivery}, Delivery.AT_LEAST_ONCE.value
        ),
        transactional_id_prefix=options.get("transactionalIdPrefix") or "headwater",
        marker_topic=options.get("markerTopic") or topic,
        query_id=_query_id(options.get("queryId")),
        batch_id=options.number("batchId", 0),
        formats=formats,
        avro=read_avro(options, formats, AVRO),
    )
    if read.delivery is Delivery.EXACTLY_ONCE:
        _refuse_unfit(read, is_streaming=is_streaming)
    return read


def _topic(text: str | None) -> str | None:
    if text == "":
        raise InvalidOption("topic is empty")
    return text


def _query_id(text: str | None) -> str | None:
    if text is None or text == ASK_SPARK:
        return text
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise InvalidOption(f"queryId must be a UUID, or {ASK_SPARK}, not {text}") from None


def _refuse_unfit(options: SinkOptions, *, is_streaming: bool) -> None:
    if options.client.get("acks", "all") not in ("all", "-1"):
        raise InvalidOption("delivery exactly-once needs kafka.acks=all")
    if options.client.get("enable.idempotence", "true").lower() != "true":
        raise InvalidOption("delivery exactly-once needs kafka.enable.idempotence=true")
    if options.marker_topic is None:
        raise InvalidOption(
            "delivery exactly-once needs topic, or markerTopic if rows name their own topics: "
            "an existing topic, on which finished batches are noted"
        )
    if not is_streaming and (options.query_id is None or options.batch_id is None):
        raise InvalidOption(
            "delivery exactly-once of a batch write needs queryId and batchId: without "
            "them a repeated batch looks like new rows"
        )
