"""Offsets to commit, in consumers, producers and the admin client."""

from typing import Any

import pytest

from headwater.client import Consumer, OffsetAndMetadata, Producer, TopicPartition
from headwater.client.errors import InvalidArgument
from headwater.client.group_metadata import offsets_to_commit

PLACE = TopicPartition("tea", 0)
# No broker is contacted: errors are raised before.
NOWHERE = "127.0.0.1:9"


def test_a_number_is_an_offset_without_metadata() -> None:
    given: Any = {("tea", 0): 7, TopicPartition("tea", 1): OffsetAndMetadata(0, "note")}
    assert offsets_to_commit(given) == {
        PLACE: OffsetAndMetadata(7),
        TopicPartition("tea", 1): OffsetAndMetadata(0, "note"),
    }


@pytest.mark.parametrize("wrong", [-7, -1, OffsetAndMetadata(-1), "7", 7.5, None, (7, "note")])
def test_an_invalid_offset_is_rejected_by_all_clients(wrong: Any) -> None:
    with Consumer(bootstrap_servers=NOWHERE, group_id="drinkers") as consumer:
        with pytest.raises(InvalidArgument, match="the offset of tea-0"):
            consumer.commit({PLACE: wrong})
        with pytest.raises(InvalidArgument, match="the offset of tea-0"):
            consumer.commit_async({PLACE: wrong})
    with (
        Producer(bootstrap_servers=NOWHERE, transactional_id="tea") as producer,
        pytest.raises(InvalidArgument, match="the offset of tea-0"),
    ):
        producer.send_offsets_to_transaction({PLACE: wrong}, "drinkers")
