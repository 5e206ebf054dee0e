"""Find hanging transactions, which no coordinator knows (KIP-664). Pure.

A hanging transaction holds back the last stable offset forever, and with it every read_committed
consumer.

Note: a slow transaction is not hanging. Its coordinator knows it and aborts it after its timeout.
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
    """An open transaction in the producer state of a partition leader."""

    partition: TopicPartition
    producer: ProducerDescription


def open_before(
    producers: Mapping[TopicPartition, Iterable[ProducerDescription]], *, before_ms: int
) -> list[OpenTransaction]:
    """Open transactions whose last record is older than `before_ms`."""
    return [
        OpenTransaction(place, each)
        for place, those in sorted(producers.items())
        for each in those
        if each.transaction_start_offset is not None and each.last_timestamp < before_ms
    ]


def owners(
    suspects: Iterable[OpenTransaction], known: Iterable[TransactionListing]
) -> dict[int, str]:
    """Map producer ids to the transactional ids that coordinators know for them."""
    wanted = {each.producer.producer_id for each in suspects}
    return {each.producer_id: each.transactional_id for each in known if each.producer_id in wanted}


def hanging(
    suspects: Iterable[OpenTransaction],
    owner: Mapping[int, str],
    described: Mapping[str, TransactionDescription],
) -> list[OpenTransaction]:
    """Open transactions to which no coordinator has this partition added."""
    found = []
    for each in suspects:
        known = described.get(owner.get(each.producer.producer_id, ""))
        is_known = (
            known is not None
            and known.producer_id == each.producer.producer_id
            and each.partition in known.partitions
        )
        if not is_known:
            found.append(each)
    return found
