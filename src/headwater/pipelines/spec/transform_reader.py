"""Read the single message transforms of a source or sink of a pipeline file.

transforms:
  - {type: InsertField$Value, static.field: shop, static.value: north, predicate: isOrder}
predicates:
  isOrder: {type: TopicNameMatches, pattern: "orders.*"}
"""

from collections.abc import Iterator
from typing import Final

from headwater.pipelines.spec.section import Section
from headwater.spark.transforms.transform_config import (
    PREDICATES,
    TRANSFORMS,
    Problem,
    TransformSpec,
    read_predicate,
    read_transform,
)

# Of a record that is not in a topic yet.
_UNKNOWN_IN_SINKS: Final = {"offset.field": "offset", "timestamp.field": "timestamp"}


def read_transform_list(
    section: Section, *, is_topic: bool, is_sink: bool
) -> tuple[TransformSpec, ...]:
    """Read the transforms of a topic; refuse those of other sources and sinks."""
    predicates = {}
    inner = section.inner(PREDICATES)
    for name in [] if inner is None else inner.names():
        assert inner is not None
        own = inner.inner(name)
        predicates[name], problems = read_predicate(name, {} if own is None else own.rest())
        _add(inner if own is None else own, problems)
    found = []
    for at, each in enumerate(section.inner_list(TRANSFORMS)):
        given = each.rest()
        name = given.get("name") or given.get("type") or str(at)
        transform, problems = read_transform(name, given, predicates)
        _add(each, problems)
        if is_sink:
            _add(each, _unknown_in_sinks(transform))
        found.append(transform)
    if found and not is_topic:
        text = "transforms are for topics: move them to the source or sink that is a topic"
        section.add_problem(text, TRANSFORMS)
    return tuple(found)


def _add(section: Section, problems: "Iterator[Problem] | list[Problem]") -> None:
    for option, text in problems:
        section.add_problem(text, *([] if option is None else [option]))


def _unknown_in_sinks(transform: TransformSpec) -> Iterator[Problem]:
    if transform.kind == "InsertField":
        for option, name in _UNKNOWN_IN_SINKS.items():
            if option in transform.config:
                yield option, f"records that a sink writes have no {name} yet"
    elif transform.kind == "TimestampRouter":
        yield "type", "records that a sink writes have no timestamp yet"
