"""Which transactions hang: open in a partition, and unknown to their coordinator. Pure.

Such a one holds up all who read committed records, for ever: nobody will end it. What a reader
would get wrong: a transaction that is merely slow is none. It has a coordinator that knows of it,
and that aborts it when its time is over.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headwater.client.admin.descriptions import (
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
)
from headwater.common.ids import TopicPartition


class OpenTransaction(NamedTuple):
    """What the leader of a partition remembers."""

    place: TopicPartition
    producer: ProducerDescription


def old_ones(
    producers: Mapping[TopicPartition, Iterable[ProducerDescription]], *, before_ms: int
) -> list[OpenTransaction]:
    """Open transactions in which nothing was written since."""
    return [
        OpenTransaction(place, each)
        for place, those in sorted(producers.items())
        for each in those
        if each.transaction_start_offset is not None and each.last_timestamp < before_ms
    ]


def owners(
    suspects: Iterable[OpenTransaction], known: Iterable[TransactionListing]
) -> dict[int, str]:
    """The transactional ids of their producers, as far as a coordinator knows them."""
    wanted = {each.producer.producer_id for each in suspects}
    return {each.producer_id: each.transactional_id for each in known if each.producer_id in wanted}


def hanging(
    suspects: Iterable[OpenTransaction],
    owner: Mapping[int, str],
    described: Mapping[str, TransactionDescription],
) -> list[OpenTransaction]:
    """Those of which no coordinator knows that this partition is in this transaction."""
    found = []
    for each in suspects:
        known = described.get(owner.get(each.producer.producer_id, ""))
        is_known = (
            known is not None
            and known.producer_id == each.producer.producer_id
            and each.place in known.partitions
        )
        if not is_known:
            found.append(each)
    return found
