"""Transforms of topics and headers, and predicates."""

import re
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from headwater.spark.transforms.record_columns import HEADERS_TYPE, Changed, failing, need_column
from headwater.spark.transforms.transform_config import PredicateSpec, TransformSpec
from headwater.spark.transforms.type_transforms import need_utc

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PLACEHOLDERS: Final = re.compile(r"\$\{(topic|timestamp)\}")


def regex_router(frame: "DataFrame", spec: TransformSpec) -> Changed:
    """Rename topics that match a regular expression as a whole."""
    topic = need_column(frame, "topic", spec)
    regex, replacement = spec.config["regex"], spec.config["replacement"]
    # Kafka replaces the first match, which begins where a match of the whole topic begins.
    renamed = f.regexp_replace(topic, rf"\A(?:{regex})", replacement)
    changed = f.when(matches(topic, regex), renamed).otherwise(topic)
    return Changed(columns={"topic": changed})


def matches(text: "Column", regex: str) -> "Column":
    return text.rlike(rf"\A(?:{regex})\z")


def timestamp_router(frame: "DataFrame", spec: TransformSpec) -> Changed:
    """Add the record's timestamp to its topic."""
    need_utc(frame, spec)
    topic = need_column(frame, "topic", spec)
    timestamp = need_column(frame, "timestamp", spec)
    text = f.date_format(timestamp, spec.config.get("timestamp.format", "yyyyMMdd"))
    wanted = spec.config.get("topic.format", "${topic}-${timestamp}")
    parts = {"topic": topic, "timestamp": text}
    pieces = [
        parts[piece] if at % 2 else f.lit(piece)
        for at, piece in enumerate(_PLACEHOLDERS.split(wanted))
    ]
    failure = failing(timestamp.isNull(), "the record has no timestamp")
    return Changed(columns={"topic": f.concat(*pieces)}, failure=failure)


def insert_header(frame: "DataFrame", spec: TransformSpec) -> Changed:
    """Add a header with a constant value."""
    header = f.struct(
        f.lit(spec.config["header"]).alias("key"),
        f.lit(spec.config["value.literal"]).cast("binary").alias("value"),
    )
    return Changed(columns={"headers": f.concat(_headers(frame), f.array(header))})


def drop_headers(frame: "DataFrame", spec: TransformSpec) -> Changed:
    """Remove the headers with given names."""
    if "headers" not in frame.columns:
        return Changed()
    names = spec.names("headers")
    kept = f.filter(f.col("headers"), lambda each: ~each.getField("key").isin(*names))
    return Changed(columns={"headers": kept})


def drop_record(_frame: "DataFrame", _spec: TransformSpec) -> Changed:
    """Filter: remove the record."""
    return Changed(drops=True)


def condition(frame: "DataFrame", predicate: PredicateSpec, spec: TransformSpec) -> "Column":
    """Return whether a predicate is true for a record."""
    match predicate.kind:
        case "TopicNameMatches":
            return matches(need_column(frame, "topic", spec), predicate.config["pattern"])
        case "HasHeaderKey":
            name = predicate.config["name"]
            return f.exists(_headers(frame), lambda each: each.getField("key") == name)
        case _:
            return need_column(frame, "value", spec).isNull()


def _headers(frame: "DataFrame") -> "Column":
    none = f.array().cast(HEADERS_TYPE)
    return f.coalesce(f.col("headers"), none) if "headers" in frame.columns else none
