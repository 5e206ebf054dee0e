"""The options `keyFormat` and `valueFormat` of source and sink.

A format says how a value is encoded in the record. Its type comes from the column of the schema,
such as `value struct<id: bigint>`.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from headwater.spark.exceptions import InvalidOption
from headwater.spark.options import SparkOptions

NAMES: Final = ("keyFormat", "valueFormat")

# Not implemented yet.
_NOT_YET: Final = frozenset({"protobuf"})


class ValueFormat(Enum):
    """Encoding of a key or a value."""

    # Unchanged bytes or text.
    BYTES = "bytes"
    JSON = "json"
    # After the id of its schema, as Confluent's serializers write it.
    AVRO = "avro"


def read_formats(options: SparkOptions) -> dict[str, ValueFormat]:
    """Return the formats of `key` and `value`, except bytes."""
    found: dict[str, ValueFormat] = {}
    for option in NAMES:
        text = (options.get(option) or "").lower()
        if text in _NOT_YET:
            raise InvalidOption(f"{option}={text} is not supported yet; use bytes, json or avro")
        chosen = options.choice(option, {each.value: each for each in ValueFormat}, "bytes")
        if chosen is not ValueFormat.BYTES:
            found[option.removesuffix("Format")] = chosen
    return found


def parts_with(formats: Mapping[str, ValueFormat], wanted: ValueFormat) -> list[str]:
    """Return the columns of a format."""
    return [part for part, each in formats.items() if each is wanted]


def names_avro(given: Mapping[str, str]) -> bool:
    """Return whether a column is Avro. Names are in lower case, as in Spark."""
    return any(given.get(each.lower(), "").lower() == ValueFormat.AVRO.value for each in NAMES)


def check_has_schema(given: Mapping[str, str]) -> None:
    """Require a schema for a typed source. Names are in lower case, as in Spark."""
    for option in NAMES:
        if given.get(option.lower(), ValueFormat.BYTES.value).lower() == ValueFormat.JSON.value:
            column = option.removesuffix("Format")
            example = f'.schema("{column} struct<id: bigint, name: string>, offset bigint")'
            raise InvalidOption(f"{option}=json needs a schema, such as {example}")
