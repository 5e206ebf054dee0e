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
    """How a key or a value lies in its record."""

    # As it is: bytes, or text.
    BYTES = "bytes"
    JSON = "json"
    # With the id of its schema before it, as Confluent's serializers write it.
    AVRO = "avro"


def read_formats(options: SparkOptions) -> dict[str, ValueFormat]:
    """The formats of the columns `key` and `value`, where they are more than bytes."""
    found: dict[str, ValueFormat] = {}
    for option in NAMES:
        text = (options.get(option) or "").lower()
        if text in _NOT_YET:
            raise InvalidOption(f"{option}={text} is not there yet; there are bytes, json and avro")
        chosen = options.choice(option, {each.value: each for each in ValueFormat}, "bytes")
        if chosen is not ValueFormat.BYTES:
            found[option.removesuffix("Format")] = chosen
    return found


def parts_with(formats: Mapping[str, ValueFormat], wanted: ValueFormat) -> list[str]:
    """The columns of a format."""
    return [part for part, each in formats.items() if each is wanted]


def names_avro(given: Mapping[str, str]) -> bool:
    """Whether a column has Avro. Names are in lower case, as Spark has them."""
    return any(given.get(each.lower(), "").lower() == ValueFormat.AVRO.value for each in NAMES)


def check_has_schema(given: Mapping[str, str]) -> None:
    """Require a schema for a typed source. Names are in lower case, as in Spark."""
    for option in NAMES:
        if given.get(option.lower(), ValueFormat.BYTES.value).lower() == ValueFormat.JSON.value:
            column = option.removesuffix("Format")
            example = f'.schema("{column} struct<id: bigint, name: string>, offset bigint")'
            raise InvalidOption(f"{option}=json needs a schema, such as {example}")
