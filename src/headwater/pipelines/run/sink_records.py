"""Turn the rows of a pipeline into records: key, value, headers.

A column `value` of type string or binary is the value itself, and the other columns are not
written. All other rows are written as JSON.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

from headwater.pipelines.spec.pipeline_spec import RecordSpec, SinkSpec
from headwater.pipelines.spec.source_reader import RECORD
from headwater.spark.transforms.transform_chain import transform_records
from headwater.spark.transforms.transform_config import ROUTERS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TEXTS: Final = ("string", "binary")
_KEPT: Final = ("headers", "topic", "partition")
# Other columns of a consumed record describe its origin, and are not written.
_READ: Final = "offset"


def as_records(frame: "DataFrame", record: RecordSpec, typed: Collection[str] = ()) -> "DataFrame":
    """Select the columns of a topic sink. `typed` columns keep their types."""
    kinds = dict(frame.dtypes)
    value = _typed_value(frame, record) if "value" in typed else _value(frame, record, kinds)
    if record.tombstone is not None:
        value = f.when(f.expr(record.tombstone), f.lit(None)).otherwise(value)
    columns = {"value": value}
    if record.key is not None:
        key = f.expr(record.key)
        columns["key"] = key if "key" in typed else _text(frame, key)
    elif kinds.get("key") in _TEXTS or ("key" in kinds and "key" in typed):
        columns["key"] = f.col("key")
    if record.headers:
        columns["headers"] = f.array(
            *(_header(name, _text(frame, f.expr(value))) for name, value in record.headers.items())
        )
    for name in _KEPT:
        if name in kinds and name not in columns and _is_meant(name, kinds):
            columns[name] = f.col(name)
    return frame.select(*(column.alias(name) for name, column in columns.items()))


def transformed_records(
    frame: "DataFrame", sink: SinkSpec, typed: Collection[str], options: Mapping[str, str]
) -> "tuple[DataFrame, dict[str, str]]":
    """Return the transformed records of a sink, and the options to write them with."""
    kinds = dict(frame.dtypes)
    is_ready = sink.record.value is None and kinds.get("value") in _TEXTS and "value" not in typed
    records = as_records(frame, sink.record, {"key"} if is_ready else {"key", "value"})
    topic, chosen = options.get("topic"), dict(options)
    if topic is not None:
        records = records.withColumn("topic", f.lit(topic))
    found = transform_records(records, sink.transforms)
    if any(each.kind in ROUTERS for each in sink.transforms):
        # Rows name their topics now, and the former one keeps the marks of finished batches.
        chosen.pop("topic", None)
        if topic is not None:
            chosen.setdefault("markerTopic", topic)
    elif topic is not None:
        found = found.drop("topic")
    return as_texts(found, [part for part in ("key", "value") if part not in typed]), chosen


def as_texts(
    records: "DataFrame", parts: Collection[str], *, keeps_nulls: bool = False
) -> "DataFrame":
    """Return keys and values as text: JSON if they have several fields."""
    options = {"ignoreNullFields": str(not keeps_nulls).lower()}
    columns = {}
    for part in parts:
        if part in records.columns:
            kind = records.schema[part].dataType
            if isinstance(kind, StructType | ArrayType | MapType):
                columns[part] = f.to_json(part, options)
            elif not isinstance(kind, StringType | BinaryType):
                columns[part] = f.col(part).cast("string")
    return records.withColumns(columns) if columns else records


def _value(frame: "DataFrame", record: RecordSpec, kinds: dict[str, str]) -> "Column":
    if record.value is not None:
        return _text(frame, f.expr(record.value))
    if kinds.get("value") in _TEXTS:
        return f.col("value")
    return f.to_json(_row(frame))


def _typed_value(frame: "DataFrame", record: RecordSpec) -> "Column":
    return _row(frame) if record.value is None else f.expr(record.value)


def _row(frame: "DataFrame") -> "Column":
    return f.struct(*(f.col(f"`{name}`") for name in frame.columns if name != RECORD))


def _is_meant(name: str, kinds: dict[str, str]) -> bool:
    if name == "headers":
        return kinds[name].startswith("array<struct<key:string,value:binary>>")
    return kinds.get("value") in _TEXTS and _READ not in kinds


def _text(frame: "DataFrame", column: "Column") -> "Column":
    """Return a string or binary column unchanged, others cast to string."""
    kind = frame.select(column.alias("it")).dtypes[0][1]
    return column if kind in _TEXTS else column.cast("string")


def _header(name: str, value: "Column") -> "Column":
    return f.struct(f.lit(name).alias("key"), value.cast("binary").alias("value"))
