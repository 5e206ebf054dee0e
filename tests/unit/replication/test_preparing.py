"""Batches that a thread opens keep their order, and so do those that came after them (PV-5)."""

import random
from collections.abc import Sequence

import pytest

from headwater.model.errors import ErrorCode
from headwater.records.building import build_batch
from headwater.records.header import Codec
from headwater.records.record import Record
from headwater.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.sim.broker_lab import START_MS, BrokerLab, Sent
from tests.sim.held_executor import HeldExecutor


def lab_with(executor: HeldExecutor, **configs: str) -> BrokerLab:
    lab = BrokerLab(executor=executor)
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    lab.create("t", 2, dict(settings))
    return lab


def batch(value: bytes, codec: Codec, key: bytes | None = b"k") -> bytes:
    return build_batch([Record(key=key, value=value, timestamp=START_MS)], codec=codec)


def send(lab: BrokerLab, *batches: bytes, acks: int = 1) -> Sent:
    """One request with a batch for each partition from 0 on."""
    data = tuple(
        PartitionProduceData(index=index, records=memoryview(each))
        for index, each in enumerate(batches)
    )
    topic = TopicProduceData(name="t", partition_data=data)
    return lab.send(ProduceRequest(acks=acks, topic_data=(topic,)), 12)


def results(sent: Sent) -> Sequence[PartitionProduceResponse]:
    return sent.answer(ProduceResponse).responses[0].partition_responses


@pytest.mark.parametrize("seed", range(10))
def test_batches_are_appended_in_the_order_in_which_they_came(seed: int) -> None:
    """Some need another codec and some do not, and the threads finish in any order."""
    dice = random.Random(seed)
    executor = HeldExecutor(dice)
    lab = lab_with(executor, compression_type="gzip")
    sent = [
        send(lab, batch(b"%d" % number, dice.choice((Codec.GZIP, Codec.NONE, Codec.ZSTD))))
        for number in range(20)
    ]
    executor.finish()
    offsets = [results(each)[0].base_offset for each in sent]
    assert offsets == list(range(20))


def test_the_answer_waits_for_all_partitions_and_keeps_their_places() -> None:
    executor = HeldExecutor(random.Random(1))
    lab = lab_with(executor, compression_type="gzip")
    sent = send(lab, batch(b"slow", Codec.NONE), batch(b"quick", Codec.GZIP))
    assert not sent.is_answered
    assert not sent.is_held
    executor.finish()
    assert [(each.index, each.error_code, each.base_offset) for each in results(sent)] == [
        (0, ErrorCode.NONE, 0),
        (1, ErrorCode.NONE, 0),
    ]


def test_a_batch_that_is_refused_on_its_thread_takes_its_turn_too() -> None:
    """CP-8."""
    executor = HeldExecutor(random.Random(3))
    lab = lab_with(executor, cleanup_policy="compact")
    sent = [
        send(lab, batch(b"1", Codec.ZSTD)),
        send(lab, batch(b"2", Codec.ZSTD, key=None)),
        send(lab, batch(b"3", Codec.NONE)),
    ]
    assert not sent[2].is_answered
    executor.finish()
    assert [results(each)[0].error_code for each in sent] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.NONE,
    ]
    assert results(sent[2])[0].base_offset == 1


def test_without_a_free_thread_a_producer_is_told_to_try_again() -> None:
    executor = HeldExecutor(random.Random(1))
    lab = lab_with(executor, compression_type="gzip")
    executor.is_full = True
    sent = send(lab, batch(b"1", Codec.NONE))
    assert results(sent)[0].error_code is ErrorCode.REQUEST_TIMED_OUT


def test_the_partition_may_be_gone_when_its_batch_is_ready() -> None:
    executor = HeldExecutor(random.Random(1))
    lab = lab_with(executor, compression_type="gzip")
    sent = send(lab, batch(b"1", Codec.NONE))
    lab.broker.partitions.by_name("t")[0].remove()  # type: ignore[index]
    executor.finish()
    assert results(sent)[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_producer_that_waits_for_nothing_is_cut_off_when_its_batch_is_refused() -> None:
    executor = HeldExecutor(random.Random(1))
    lab = lab_with(executor, cleanup_policy="compact")
    good = send(lab, batch(b"1", Codec.ZSTD), acks=0)
    executor.finish()
    assert good.was_silent
    assert not good.peer.is_closed
    bad = send(lab, batch(b"2", Codec.ZSTD, key=None), acks=0)
    executor.finish()
    assert bad.peer.is_closed
