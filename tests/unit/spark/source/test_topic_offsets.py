"""Offsets as JSON: the shape of Spark's own connector, and always in one order."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.common.ids import TopicPartition
from headwater.spark.exceptions import InvalidOption
from headwater.spark.source.topic_offsets import (
    Position,
    from_document,
    parse_offsets,
    parse_partitions,
    to_document,
)

A0, A1, A10, B0 = (
    TopicPartition("a", 0),
    TopicPartition("a", 1),
    TopicPartition("a", 10),
    TopicPartition("b", 0),
)

offsets = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "c.d"]), st.integers(0, 40)),
    st.integers(0, 2**63 - 1),
)


def test_a_document_has_the_shape_of_sparks_own_connector() -> None:
    assert to_document(Position({B0: 3, A0: 25})) == {"a": {"0": 25}, "b": {"0": 3}}


def test_the_same_offsets_are_the_same_text_whatever_order_they_came_in() -> None:
    one = json.dumps(to_document(Position({A10: 1, B0: 3, A1: 2})))
    other = json.dumps(to_document(Position({A1: 2, A10: 1, B0: 3})))
    assert one == other == '{"a": {"1": 2, "10": 1}, "b": {"0": 3}}'


@given(offsets, st.none() | offsets)
def test_a_position_comes_back_from_its_text(
    at: dict[TopicPartition, int], start: dict[TopicPartition, int] | None
) -> None:
    text = json.dumps(to_document(Position(at, start)))
    assert from_document(json.loads(text)) == Position(at, start)


def test_a_checkpoint_of_sparks_own_connector_can_be_read() -> None:
    assert from_document({"t": {"1": 25, "0": 7}}) == Position(
        {TopicPartition("t", 0): 7, TopicPartition("t", 1): 25}
    )


def test_offsets_of_an_option_may_be_earliest_and_latest() -> None:
    assert parse_offsets("startingOffsets", '{"a":{"0":-2,"1":-1,"10":5}}') == {
        A0: -2,
        A1: -1,
        A10: 5,
    }


@pytest.mark.parametrize("text", ["", "5", "[]", '{"a":3}', '{"a":{"x":1}}', '{"a":{"0":"1"}}'])
def test_offsets_that_cannot_be_read_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidOption, match=r"startingOffsets must .*topicA"):
        parse_offsets("startingOffsets", text)


def test_partitions_of_an_option_are_named_once_each() -> None:
    assert parse_partitions("assign", '{"b":[0],"a":[1,0,1]}') == [A0, A1, B0]


@pytest.mark.parametrize("text", ["a", '{"a":0}', '{"a":["0"]}', '{"a":[true]}'])
def test_partitions_that_cannot_be_read_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidOption, match=r"assign must .*topicA"):
        parse_partitions("assign", text)
