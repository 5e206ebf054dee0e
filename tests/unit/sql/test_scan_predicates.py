"""Bounds of offsets and times are found in predicates, and never too narrow."""

import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headwater.sql.scan_predicates import (
    EVERYTHING,
    NOTHING,
    RecordBounds,
    fields_of,
    read_expression,
    record_bounds,
)

field: Any = pc.field
# Lower case: these are no constants, on which ruff would insist on the right.
offset = field("_offset")
partition = field("_partition")
timestamp = field("_timestamp")


def bounds(expression: Any, number: int = 0) -> RecordBounds:
    term = read_expression(expression)
    assert term is not None
    return record_bounds(term, number)


def time(microseconds: int) -> Any:
    return pa.scalar(microseconds, pa.timestamp("us", tz="UTC"))


def offsets(*intervals: tuple[int, int]) -> RecordBounds:
    return RecordBounds(offsets=intervals)


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ((offset >= 5) & (offset < 9), ((5, 9),)),
        ((offset > 5) & (offset <= 9), ((6, 10),)),
        (offset == 7, ((7, 8),)),
        (offset.isin([3, 4, 9]), ((3, 5), (9, 10))),
        (~(offset < 100), ((100, 2**63),)),
        (((offset < 3) | (offset > 8)) & (offset >= 0) & (offset < 20), ((0, 3), (9, 20))),
        ((offset == 1) & (field("kind") == "green"), ((1, 2),)),
        (pc.scalar(5) < offset, ((6, 2**63),)),
    ],
)
def test_offsets_are_bounded(expression: Any, found: tuple[tuple[int, int], ...]) -> None:
    assert bounds(expression).offsets == found


def test_a_predicate_on_another_field_bounds_nothing() -> None:
    assert bounds(field("amount") > 5) == EVERYTHING
    assert bounds((offset < 5) | (field("amount") > 5)) == EVERYTHING


def test_partitions_are_chosen() -> None:
    chosen = partition.isin([1, 3])
    nested = pc.if_else(partition.is_valid(), chosen, pa.scalar(None, pa.bool_()))
    for expression in (chosen, nested):
        found = [bounds(expression, each) for each in range(4)]
        assert [each.is_empty for each in found] == [True, False, True, False]
        negated = [bounds(~expression, each) for each in range(4)]
        assert [each.is_empty for each in negated] == [False, True, False, True]
    assert bounds(partition != 2, 2) == NOTHING
    either = ((partition == 0) & (offset < 5)) | ((partition == 1) & (offset > 8))
    assert bounds(either, 0) == offsets((-(2**63), 5))
    assert bounds(either, 1) == offsets((9, 2**63))


def test_times_are_bounded_in_whole_milliseconds() -> None:
    found = bounds((timestamp >= time(1_500)) & (timestamp < time(3_000_001)))
    assert (found.first_ms, found.end_ms) == (2, 3_001)
    found = bounds((timestamp > time(2_000)) & (timestamp <= time(3_000_000)))
    assert (found.first_ms, found.end_ms) == (3, 3_001)
    assert bounds(timestamp == time(1_500)) == NOTHING


def test_a_comparison_with_null_matches_nothing() -> None:
    assert bounds(offset < pa.scalar(None, pa.int64())) == NOTHING


def test_fields_are_listed_with_those_of_structs() -> None:
    term = read_expression((offset > 1) & (field("shop", "city") == "a"))
    assert term is not None
    assert fields_of(term) == {"_offset", "shop"}


def test_what_is_no_expression_is_not_read() -> None:
    assert read_expression(None) is None
    assert read_expression("_offset > 5") is None


def test_bounds_contain_every_match_of_random_predicates() -> None:
    rng = random.Random(7)
    rows = [
        {"_partition": p, "_offset": o, "_timestamp": t, "amount": rng.choice([None, 1, 2, 3])}
        for p in range(3)
        for o, t in enumerate(rng.sample(range(40), 20))
    ]
    schema = pa.schema(
        {
            "_partition": pa.int32(),
            "_offset": pa.int64(),
            "_timestamp": pa.timestamp("ms", tz="UTC"),
            "amount": pa.int64(),
        }
    )
    table: Any = pa.Table.from_pylist(rows, schema=schema)
    narrowed = 0
    for _ in range(400):
        expression = predicate(rng, 3)
        matches = table.filter(expression).to_pylist()
        found = [bounds(expression, each) for each in range(3)]
        narrowed += found != [EVERYTHING] * 3
        for row in matches:
            bound = found[row["_partition"]]
            at_ms = round(row["_timestamp"].timestamp() * 1_000)
            assert any(first <= row["_offset"] < end for first, end in bound.offsets), expression
            assert bound.first_ms <= at_ms < bound.end_ms, expression
    assert narrowed > 200


def predicate(rng: random.Random, depth: int) -> Any:
    if depth and rng.random() < 0.6:
        one, other = predicate(rng, depth - 1), predicate(rng, depth - 1)
        return rng.choice([one & other, one | other, ~one])
    column, value = rng.choice(
        [
            (partition, pa.scalar(rng.randrange(3), pa.int32())),
            (offset, rng.randrange(20)),
            (timestamp, time(rng.randrange(40_000))),
            (field("amount"), rng.randrange(4)),
        ]
    )
    operators = [
        column < value,
        column <= value,
        column > value,
        column >= value,
        column == value,
        column != value,
        column.is_valid(),
        column.is_null(),
    ]
    return rng.choice(operators)
