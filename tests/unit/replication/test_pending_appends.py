"""Batches validated on threads keep their order, with those behind them (PV-5)."""

import random
from collections.abc import Sequence

import pytest

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import InvalidRecord
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import HEADER_BYTES, Codec, read_header
from headwater.records.batch_sealing import seal_batch
from headwater.records.checksum import write_crc
from headwater.records.record import Record
from headwater.replication.pending_appends import Ready, append_in_order
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.labs.broker_lab import START_MS, BrokerLab, Sent
from tests.simulation.labs.transaction_client import LabProducer


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
def test_batches_are_appended_in_order_of_arrival(seed: int) -> None:
    """Some need another codec and some do not, and the threads finish in any order."""
    rng = random.Random(seed)
    executor = HeldExecutor(rng)
    lab = lab_with(executor, compression_type="gzip")
    sent = [
        send(lab, batch(b"%d" % number, rng.choice((Codec.GZIP, Codec.NONE, Codec.ZSTD))))
        for number in range(20)
    ]
    executor.finish()
    offsets = [results(each)[0].base_offset for each in sent]
    assert offsets == list(range(20))


def test_the_response_waits_for_all_partitions_and_keeps_their_order() -> None:
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


def test_a_batch_rejected_on_a_thread_takes_its_turn_too() -> None:
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


def test_without_a_free_thread_the_producer_gets_a_retriable_error() -> None:
    executor = HeldExecutor(random.Random(1))
    lab = lab_with(executor, compression_type="gzip")
    executor.is_full = True
    sent = send(lab, batch(b"1", Codec.NONE))
    assert results(sent)[0].error_code is ErrorCode.REQUEST_TIMED_OUT


def test_the_partition_may_be_deleted_when_its_batch_is_ready() -> None:
    executor = HeldExecutor(random.Random(1))
    lab = lab_with(executor, compression_type="gzip")
    sent = send(lab, batch(b"1", Codec.NONE))
    lab.broker.partitions.by_name("t")[0].remove()  # type: ignore[index]
    executor.finish()
    assert results(sent)[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_with_acks_0_a_rejected_batch_closes_the_connection() -> None:
    executor = HeldExecutor(random.Random(1))
    lab = lab_with(executor, cleanup_policy="compact")
    good = send(lab, batch(b"1", Codec.ZSTD), acks=0)
    executor.finish()
    assert good.was_silent
    assert not good.peer.is_closed
    bad = send(lab, batch(b"2", Codec.ZSTD, key=None), acks=0)
    executor.finish()
    assert bad.peer.is_closed


# Validation: small batches on the event loop, large ones on a thread.


def noise_batch(number: int, codec: Codec, size: int) -> bytes:
    return batch(random.Random(number).randbytes(size), codec)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("seed", range(5))
def test_large_and_small_batches_keep_their_order(seed: int, acks: int) -> None:
    """While a large one is validated on a thread, the small ones behind it wait."""
    rng = random.Random(seed)
    executor = HeldExecutor(rng)
    lab = lab_with(executor)
    sent = [
        send(lab, noise_batch(number, codec, size), acks=acks)
        for number, (codec, size) in enumerate(
            [(Codec.NONE, 10)]
            + [(rng.choice(list(Codec)), rng.choice((10, 100_000))) for _ in range(20)]
        )
    ]
    assert sent[0].is_answered
    assert not all(each.is_answered for each in sent)
    executor.finish()
    assert [results(each)[0].base_offset for each in sent] == list(range(21))


@pytest.mark.parametrize("codec", [each for each in Codec if each is not Codec.NONE])
def test_a_small_batch_is_validated_on_the_loop(codec: Codec) -> None:
    lab = lab_with(HeldExecutor(random.Random(1)))
    assert results(send(lab, batch(b"small", codec)))[0].base_offset == 0


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("acks", [1, -1])
def test_a_small_batch_with_a_high_compression_ratio_goes_to_a_thread(
    codec: Codec, acks: int
) -> None:
    executor = HeldExecutor(random.Random(1))
    lab = lab_with(executor)
    sent = send(lab, batch(bytes(1_500_000), codec), acks=acks)
    behind = send(lab, batch(b"behind", Codec.NONE), acks=acks)
    assert not sent.is_answered
    assert not behind.is_answered
    executor.finish()
    assert [results(each)[0].base_offset for each in (sent, behind)] == [0, 1]


def test_an_error_of_a_thread_holds_no_memory() -> None:
    """A traceback would keep its frames until the next garbage collection."""
    bad = bytearray(noise_batch(1, Codec.LZ4, 100_000))
    bad[70:80] = bytes(10)
    write_crc(bad, 0, len(bad))
    refusals: list[Ready] = []
    executor = HeldExecutor(random.Random(1))
    lab = lab_with(executor)
    lab.produce("t", b"opens the log")
    hosted = lab.broker.partitions.find("t", 0)
    assert hosted is not None
    append_in_order(
        hosted,
        hosted.open_log(),
        bad,
        executor=executor,
        now_ms=START_MS,
        then=refusals.append,
    )
    executor.finish()
    (refusal,) = refusals
    assert isinstance(refusal, InvalidRecord)
    assert (refusal.__traceback__, refusal.__cause__, refusal.__context__) == (None, None, None)


def test_without_validation_nothing_is_decompressed() -> None:
    lab = lab_with(HeldExecutor(random.Random(1)), headwater_record_validation_enable="false")
    bad = bytearray(noise_batch(1, Codec.LZ4, 100_000))
    bad[70:80] = bytes(10)
    write_crc(bad, 0, len(bad))
    assert results(send(lab, bytes(bad)))[0].error_code is ErrorCode.NONE


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("validation", ["true", "false"])
def test_a_claim_of_two_billion_records_takes_no_offset(codec: Codec, validation: str) -> None:
    lab = lab_with(HeldExecutor(random.Random(1)), headwater_record_validation_enable=validation)
    claim = 2**31 - 1
    small = batch(b"v", codec)
    header = read_header(small)._replace(record_count=claim, last_offset_delta=claim - 1)
    lie = seal_batch(header, small[HEADER_BYTES:])
    (refused,) = results(send(lab, lie))
    assert refused.error_code is ErrorCode.INVALID_RECORD
    assert results(send(lab, small))[0].base_offset == 0


class PackingProducer(LabProducer):
    """Sends zeros, which compress well."""

    def batch(self, value: bytes, sequence: int) -> memoryview:
        content = build_batch(
            [Record(key=b"k", value=value * 1_000_000, timestamp=START_MS)],
            codec=Codec.ZSTD,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        return memoryview(bytearray(content))


def test_transactional_batches_keep_their_order_when_threads_validate_them() -> None:
    """TX-13: pipelined batches of one producer, in a transaction that the first one opens."""
    executor = HeldExecutor(random.Random(2))
    lab = BrokerLab({"transaction.state.log.num.partitions": "3"}, executor=executor)
    lab.create("t", 2)
    producer = PackingProducer(lab)
    assert producer.begin() is ErrorCode.NONE
    sent = [producer.send("t", sequence, value=b"\0") for sequence in range(3)]
    assert not any(each.is_answered for each in sent)
    executor.finish()
    assert [results(each)[0].error_code for each in sent] == [ErrorCode.NONE] * 3
    assert [results(each)[0].base_offset for each in sent] == [0, 1, 2]
