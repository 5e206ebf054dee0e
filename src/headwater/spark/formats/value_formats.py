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


class ValueFormat(Enum):
    """Encoding of a key or a value."""

    # Unchanged bytes or text.
    BYTES = "bytes"
    JSON = "json"
    # After the id of its schema, as Confluent's serializers write it.
    AVRO = "avro"
    # Likewise, and the position of its message in the schema.
    PROTOBUF = "protobuf"

    @property
    def has_registry(self) -> bool:
        """Whether its schemas are in a registry."""
        return self in (ValueFormat.AVRO, ValueFormat.PROTOBUF)


def read_formats(options: SparkOptions) -> dict[str, ValueFormat]:
    """Return the formats of `key` and `value`, except bytes."""
    found: dict[str, ValueFormat] = {}
    for option in NAMES:
        chosen = options.choice(option, {each.value: each for each in ValueFormat}, "bytes")
        if chosen is not ValueFormat.BYTES:
            found[option.removesuffix("Format")] = chosen
    return found


def parts_with(formats: Mapping[str, ValueFormat], wanted: ValueFormat) -> list[str]:
    """Return the columns of a format."""
    return [part for part, each in formats.items() if each is wanted]


def names_registry_format(given: Mapping[str, str]) -> bool:
    """Return whether a column is Avro or Protobuf. Names are in lower case."""
    registered = {each.value for each in ValueFormat if each.has_registry}
    return any(given.get(each.lower(), "").lower() in registered for each in NAMES)


def check_has_schema(given: Mapping[str, str]) -> None:
    """Require a schema for a typed source. Names are in lower case, as in Spark."""
    for option in NAMES:
        if given.get(option.lower(), ValueFormat.BYTES.value).lower() == ValueFormat.JSON.value:
            column = option.removesuffix("Format")
            example = f'.schema("{column} struct<id: bigint, name: string>, offset bigint")'
            raise InvalidOption(f"{option}=json needs a schema, such as {example}")
