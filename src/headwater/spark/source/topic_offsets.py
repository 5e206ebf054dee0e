"""Offsets of a query per partition, as the JSON that Spark keeps in checkpoints.

The layout is that of Spark's Kafka connector, `{"orders": {"0": 25, "1": 7}}`, so a checkpoint can
be used by either. Spark compares offsets as strings: the same offsets in another order would start
a batch, so keys are always sorted.

The first end offset of a query also carries its start, under `@start`. Spark asks for the start
again when it repeats a first batch that failed, and "latest" would be a later offset by then.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headwater.common.ids import TopicPartition
from headwater.spark.exceptions import InvalidOption

EARLIEST: Final = -2
LATEST: Final = -1

Offsets = Mapping[TopicPartition, int]
# The form that PySpark uses; it converts it to JSON itself.
OffsetDocument = dict[str, dict[str, object]]

_START: Final = "@start"


class Position(NamedTuple):
    """Offsets of a query, and in its first batch also the initial offsets."""

    offsets: Offsets
    start: Offsets | None = None


def to_document(position: Position) -> OffsetDocument:
    document: OffsetDocument = _by_topic(position.offsets)
    if position.start is not None:
        document[_START] = dict(_by_topic(position.start))
    return document


def from_document(document: Mapping[str, Mapping[str, object]]) -> Position:
    offsets = {name: values for name, values in document.items() if name != _START}
    start = document.get(_START)
    return Position(
        _flat(offsets), None if start is None else _flat({k: _mapping(v) for k, v in start.items()})
    )


def parse_offsets(option: str, text: str) -> dict[TopicPartition, int]:
    """Parse an option with a number per partition: `{"orders": {"0": 25}}`."""
    example = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    document = _json(option, text, example)
    try:
        return _flat({name: _mapping(values) for name, values in document.items()})
    except (TypeError, ValueError):
        raise InvalidOption(f"{option} must look like {example}, not {text}") from None


def parse_partitions(option: str, text: str) -> list[TopicPartition]:
    """Parse an option with partitions: `{"orders": [0, 1]}`."""
    example = '{"topicA":[0,1],"topicB":[2,4]}'
    document = _json(option, text, example)
    found = []
    for topic, numbers in document.items():
        if not isinstance(numbers, list) or not all(_is_whole(each) for each in numbers):
            raise InvalidOption(f"{option} must look like {example}, not {text}")
        found += [TopicPartition(topic, number) for number in numbers]
    return sorted(set(found))


def _by_topic(offsets: Offsets) -> OffsetDocument:
    document: OffsetDocument = {}
    for topic, partition in sorted(offsets):
        document.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return document


def _flat(document: Mapping[str, Mapping[str, object]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(number)): _whole(offset)
        for topic, values in document.items()
        for number, offset in values.items()
    }


def _json(option: str, text: str, example: str) -> dict[str, object]:
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise InvalidOption(f"{option} must be JSON such as {example}, not {text}")
    return document


def _mapping(values: object) -> Mapping[str, object]:
    if not isinstance(values, dict):
        raise TypeError("not a mapping")
    return values


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("not a whole number")
    return value


def offsets_in(text: str | None) -> dict[TopicPartition, int]:
    """Return the offsets in a source's end offset; none for other sources."""
    try:
        document: Any = json.loads(text or "null")
    except ValueError:
        return {}
    if not isinstance(document, dict) or not all(
        isinstance(values, dict) for values in document.values()
    ):
        return {}
    try:
        return dict(from_document(document).offsets)
    except (TypeError, ValueError):
        return {}
