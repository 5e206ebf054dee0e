"""Decode records into columns in Spark, and separate records that do not parse.

Note: a record without a value is valid: a row without fields in a stream, and a deleted key in a
table. A value that cannot be decoded fails the query, unless the pipeline has a dead-letter topic.
"""

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from headwater.pipelines.spec.pipeline_spec import Coding, Decoding, SourceSpec
from headwater.pipelines.spec.source_reader import RECORD
from headwater.spark.exceptions import InvalidOption
from headwater.spark.formats.avro.from_avro import record_columns
from headwater.spark.transforms.transform_chain import FAILURE, checked, with_failures

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from headwater.spark.formats.avro.avro_options import RegistryAccess

# Internal column names, which must not collide with user columns.
_BROKEN: Final = "__broken"
_PARSED: Final = "__parsed_"


def decode(
    records: "DataFrame",
    source: SourceSpec,
    registry: "RegistryAccess | None",
    *,
    keeps_broken: bool,
) -> "DataFrame":
    """Decode records; skip undecodable ones, or fail the query."""
    decodings = _decodings(source)
    if source.transforms:
        found = decoded_records(records, source, registry, keeps_broken=keeps_broken)
        kept = found.where(f.col(FAILURE).isNull()) if keeps_broken else checked(found)
        return _transformed_columns(kept, records, source)
    if not decodings:
        return records
    mode = "PERMISSIVE" if keeps_broken else "FAILFAST"
    parsed = _parsed(records, decodings, mode, registry)
    if keeps_broken:
        parsed = parsed.where(~_is_broken(decodings))
    fields = [
        f.col(f"{_PARSED}{part}.`{field.name}`").alias(field.name)
        for part, decoding in decodings.items()
        for field in decoding.fields
    ]
    record = f.struct(*(f.col(name) for name in records.columns)).alias(RECORD)
    return parsed.select(*fields, record)


def decoded_records(
    records: "DataFrame",
    source: SourceSpec,
    registry: "RegistryAccess | None",
    *,
    keeps_broken: bool,
) -> "DataFrame":
    """Decode and transform keys and values, with the reason of a failure in `FAILURE`.

    The column `record` keeps the record as it was consumed.
    """
    decodings = _decodings(source)
    mode = "PERMISSIVE" if keeps_broken else "FAILFAST"
    parsed = _parsed(records, decodings, mode, registry)
    failure = None
    if keeps_broken and decodings:
        failure = f.when(_is_broken(decodings), f.lit("not decoded"))
    decoded = {part: _decoded(part, each) for part, each in decodings.items()}
    consumed = f.struct(*(f.col(name) for name in records.columns)).alias(RECORD)
    columns = [decoded.get(name, f.col(name)).alias(name) for name in records.columns]
    reason = [] if failure is None else [failure.alias(FAILURE)]
    frame = parsed.select(*columns, consumed, *reason)
    return with_failures(frame, source.transforms, None if failure is None else f.col(FAILURE))


def _decoded(part: str, decoding: Decoding) -> "Column":
    whole = f.col(_PARSED + part)
    if decoding.coding is Coding.STRING:
        return whole.getField(decoding.fields[0].name)
    fields = (whole.getField(each.name).alias(each.name) for each in decoding.fields)
    return f.when(whole.isNotNull() & f.col(part).isNotNull(), f.struct(*fields))


def _transformed_columns(
    frame: "DataFrame", records: "DataFrame", source: SourceSpec
) -> "DataFrame":
    """Return the fields of transformed keys and values as columns, and the record."""
    decodings = _decodings(source)
    if not decodings:
        return frame.select(*records.columns)
    fields: dict[str, Column] = {}
    for part in ("key", "value"):
        kind, decoding = frame.schema[part].dataType, decodings.get(part)
        if decoding is None and kind == records.schema[part].dataType:
            continue
        if isinstance(kind, StructType):
            columns = {name: f.col(part).getField(name) for name in kind.names}
        elif decoding is not None and decoding.coding is Coding.STRING:
            columns = {decoding.fields[0].name: f.col(part)}
        else:
            columns = {part: f.col(part)}
        known = {name.lower() for name in fields}
        if twice := [name for name in columns if name.lower() in known]:
            raise InvalidOption(
                f"{source.name}: the column {twice[0]} comes from the key and from the value"
            )
        fields |= columns
    changed = [name for name in ("topic", "headers") if name in records.columns]
    record = f.col(RECORD)
    for name in changed:
        record = record.withField(name, f.col(name))
    return frame.select(*(each.alias(name) for name, each in fields.items()), record.alias(RECORD))


def latest_per_key(records: "DataFrame") -> "DataFrame":
    """Return a changelog as a table, without deleted keys.

    All records of a key are in one partition, so the highest offset is the latest.
    """
    others = [name for name in records.columns if name != "key"]
    newest = f.max_by(f.struct(*others), f.struct("offset", "partition")).alias("newest")
    table = records.where(f.col("key").isNotNull()).groupBy("key").agg(newest)
    return table.select("key", "newest.*").where(f.col("value").isNotNull())


def _decodings(source: SourceSpec) -> dict[str, Decoding]:
    both = {"key": source.key, "value": source.value}
    return {part: decoding for part, decoding in both.items() if decoding is not None}


def _parsed(
    records: "DataFrame",
    decodings: dict[str, Decoding],
    mode: str,
    registry: "RegistryAccess | None",
) -> "DataFrame":
    columns = {
        _PARSED + part: _read_avro(part, decoding, mode, registry)
        if decoding.coding is Coding.AVRO
        else _parse(f.col(part).cast("string"), decoding, mode)
        for part, decoding in decodings.items()
    }
    return records.withColumns(columns)


def _read_avro(
    part: str, decoding: Decoding, mode: str, registry: "RegistryAccess | None"
) -> "Column":
    assert registry is not None, "refused when the schema was asked for"
    is_strict = mode == "FAILFAST"
    return record_columns(part, registry, decoding.schema, _BROKEN, is_strict=is_strict)


def _parse(text: "Column", decoding: Decoding, mode: str) -> "Column":
    if decoding.coding is Coding.STRING:
        return f.struct(text.alias(decoding.fields[0].name))
    schema, options = decoding.schema, {"mode": mode}
    if mode == "PERMISSIVE":
        schema = f"{schema}, {_BROKEN} string"
        options["columnNameOfCorruptRecord"] = _BROKEN
    if decoding.coding is Coding.JSON:
        return f.from_json(text, schema, options)
    return f.from_csv(text, f.lit(schema), options)


def _is_broken(decodings: dict[str, Decoding]) -> "Column":
    parts = [
        _part_is_broken(part)
        for part, each in decodings.items()
        if each.coding is not Coding.STRING
    ]
    return reduce(lambda left, right: left | right, parts, f.lit(False))


def _part_is_broken(part: str) -> "Column":
    parsed = f.col(_PARSED + part)
    is_broken = parsed.isNull() | parsed.getField(_BROKEN).isNotNull()
    return f.col(part).isNotNull() & is_broken
