"""Write records that do not match their schema to the dead-letter topic."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from headwater.pipelines.check.topic_options import topic_options
from headwater.pipelines.run.parse_errors import parse_error
from headwater.pipelines.run.sink_queries import _start
from headwater.pipelines.run.source_decoder import (
    _BROKEN,
    _PARSED,
    _decodings,
    _is_broken,
    _parsed,
    _part_is_broken,
    decoded_records,
)
from headwater.pipelines.spec.pipeline_spec import (
    Coding,
    Decoding,
    PipelineSpec,
    SinkSpec,
    SourceSpec,
    Trigger,
)
from headwater.pipelines.spec.source_reader import RECORD
from headwater.spark.formats.avro.avro_options import RegistryAccess
from headwater.spark.sink.write_stream import topic_writer
from headwater.spark.transforms.transform_chain import FAILURE

_HEADERS: Final = "array<struct<key:string,value:binary>>"


_ERRORS: Final = "__headwater.errors."


def dead_letters(
    records: "DataFrame", source: SourceSpec, pipeline: str, registry: "RegistryAccess | None"
) -> "DataFrame | None":
    """Return failed records, with the reason in their headers."""
    failed = failed_records(records, source, registry)
    if failed is None:
        return None
    fields = {
        "message": f.col(FAILURE),
        "topic": f.col("topic"),
        "partition": f.col("partition").cast("string"),
        "offset": f.col("offset").cast("string"),
        "pipeline": f.lit(pipeline),
        "source": f.lit(source.name),
    }
    added = f.array(*(_header(_ERRORS + name, value) for name, value in fields.items()))
    own = f.coalesce(f.col("headers"), f.array().cast(_HEADERS))
    headers = f.concat(own, added)
    return failed.select("key", "value", headers.alias("headers"))


def failed_records(
    records: "DataFrame", source: SourceSpec, registry: "RegistryAccess | None"
) -> "DataFrame | None":
    """Return records that cannot be decoded or transformed, with `FAILURE`.

    They are as they were consumed. None if every record of the source can be decoded.
    """
    decodings = {
        part: each for part, each in _decodings(source).items() if each.coding is not Coding.STRING
    }
    names = records.columns
    if source.transforms:
        found = decoded_records(records, source, registry, keeps_broken=True)
        # Decoded again, because the reason is found in Python, for the failed records alone.
        records = found.where(f.col(FAILURE).isNotNull()).select(f"{RECORD}.*", FAILURE)
    if not decodings:
        return records if source.transforms else None
    parsed = _parsed(records, decodings, "PERMISSIVE", registry)
    reason = _reason(decodings)
    if source.transforms:
        reason = f.when(_is_broken(decodings), reason).otherwise(f.col(FAILURE))
    else:
        parsed = parsed.where(_is_broken(decodings))
    return parsed.select(*names, reason.alias(FAILURE))


def _reason(decodings: dict[str, Decoding]) -> "Column":
    """Find the reason in Python, row by row: such records should be few."""
    why = f.udf(parse_error, "string", useArrow=False)
    reasons = None
    for part, each in decodings.items():
        text = (
            f.col(_PARSED + part).getField(_BROKEN)
            if each.coding is Coding.AVRO
            else why(f.col(part), f.lit(each.coding.value), f.lit(each.schema))
        )
        reason = f.concat(f.lit(f"{part}: "), text)
        is_broken = _part_is_broken(part)
        reasons = f.when(is_broken, reason) if reasons is None else reasons.otherwise(reason)
    assert reasons is not None
    return reasons


def _header(name: str, value: "Column") -> "Column":
    return f.struct(f.lit(name).alias("key"), value.cast("binary").alias("value"))


def start_dead_letters(
    frame: "DataFrame", name: str, trigger: Trigger, spec: PipelineSpec
) -> "StreamingQuery":
    """Start the query that writes a source's dead letters."""
    assert spec.dead_letter is not None
    options = topic_options(spec, {"topic": spec.dead_letter, "delivery": "exactly-once"})
    sink = SinkSpec(name=name, place=(), source=name, options=options, trigger=trigger)
    return _start(topic_writer(frame, options, sink.mode.value), sink, spec)
