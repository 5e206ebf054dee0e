"""Transform the records of imports and exports, and keep the failed ones."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from headwater.connect.connector_properties import ConnectorProperties
from headwater.pipelines.run.dead_letters import failed_records
from headwater.pipelines.run.sink_records import as_texts
from headwater.pipelines.run.source_decoder import decoded_records
from headwater.pipelines.spec.ddl import read_schema
from headwater.pipelines.spec.pipeline_spec import Coding, Decoding, SourceSpec
from headwater.spark.transforms.record_columns import HEADERS_TYPE
from headwater.spark.transforms.transform_chain import FAILURE, checked, with_failures
from headwater.spark.transforms.transform_config import ROUTERS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_log = logging.getLogger(__name__)

# Kafka Connect's headers of a dead letter.
_CONTEXT: Final = "__connect.errors."
_LOGGED_MAX: Final = 100


def transformed_import(
    records: "DataFrame", topic: str | None, properties: ConnectorProperties, *, is_avro: bool
) -> "tuple[DataFrame, dict[str, str]]":
    """Return transformed records, and the options that name their topics.

    Without `topic`, records name their topics themselves.
    """
    if topic is not None:
        records = records.withColumn("topic", f.lit(topic))
    found = with_failures(records, properties.transforms)
    if properties.errors.is_tolerant:
        found = found.where(f.col(FAILURE).isNull()).drop(FAILURE)
    else:
        found = checked(found)
    found = as_texts(found, ("key",) if is_avro else ("key", "value"), keeps_nulls=True)
    if topic is None:
        return found, {}
    if any(each.kind in ROUTERS for each in properties.transforms):
        return found, {"markerTopic": topic}
    return found.drop("topic"), {"topic": topic}


def export_source(topic: str, schema: str | None, properties: ConnectorProperties) -> SourceSpec:
    """Describe how an export decodes records."""
    decoding = None
    if schema is not None:
        decoding = Decoding(coding=Coding.JSON, schema=schema, fields=read_schema(schema))
    return SourceSpec(name=topic, place=(), value=decoding, transforms=properties.transforms)


def transformed_export(
    records: "DataFrame", source: SourceSpec, properties: ConnectorProperties
) -> "DataFrame":
    """Return decoded and transformed records; skip failed ones, or fail the query."""
    keeps = properties.errors.is_tolerant
    found = decoded_records(records, source, None, keeps_broken=keeps)
    kept = found.where(f.col(FAILURE).isNull()) if keeps else checked(found)
    return kept.select(*(name for name in kept.columns if name in (*records.columns, "topic")))


def dead_letter_records(
    records: "DataFrame", source: SourceSpec, properties: ConnectorProperties, connector: str
) -> "DataFrame | None":
    """Return failed records as they were consumed, with the headers of Kafka Connect."""
    failed = failed_records(records, source, None)
    if failed is None:
        return None
    headers = f.coalesce(f.col("headers"), f.array().cast(HEADERS_TYPE))
    if properties.errors.has_context_headers:
        headers = f.concat(headers, f.array(*_context(connector)))
    return failed.select("key", "value", headers.alias("headers"))


def _context(connector: str) -> "list[Column]":
    is_undecoded = f.col(FAILURE).startswith("value: ")
    fields: Mapping[str, Column] = {
        "topic": f.col("topic"),
        "partition": f.col("partition").cast("string"),
        "offset": f.col("offset").cast("string"),
        "connector.name": f.lit(connector),
        "task.id": f.lit("0"),
        "stage": f.when(is_undecoded, "VALUE_CONVERTER").otherwise("TRANSFORMATION"),
        "exception.message": f.col(FAILURE),
    }
    return [
        f.struct(f.lit(_CONTEXT + name).alias("key"), value.cast("binary").alias("value"))
        for name, value in fields.items()
    ]


def log_failures(failed: "DataFrame", connector: str, *, with_messages: bool) -> None:
    """Log the first failed records of a batch."""
    columns = ["topic", "partition", "offset", FAILURE]
    if with_messages:
        failed = failed.withColumn("__text", f.col("value").cast("string"))
        columns.append("__text")
    for row in failed.select(*columns).limit(_LOGGED_MAX).collect():
        message = f" value={row['__text']}" if with_messages else ""
        _log.error(
            "Record skipped: connector=%s topic=%s partition=%d offset=%d%s reason=%s",
            connector,
            row["topic"],
            row["partition"],
            row["offset"],
            message,
            row[FAILURE],
        )
