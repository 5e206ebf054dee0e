"""Which offsets a query's progress tells."""

import pytest

from headwater.common.ids import TopicPartition
from headwater.spark.source.topic_offsets import offsets_in


def test_the_offsets_of_topics_are_found() -> None:
    assert offsets_in('{"t": {"0": 5, "1": 7}, "@start": {"t": {"0": 1}}}') == {
        TopicPartition("t", 0): 5,
        TopicPartition("t", 1): 7,
    }


@pytest.mark.parametrize(
    "text", [None, "", "null", "17", '{"logOffset": 3}', '{"t": {"zero": 1}}', '{"t": {"0": "1"}}']
)
def test_the_offsets_of_other_sources_are_left_alone(text: str | None) -> None:
    assert offsets_in(text) == {}
