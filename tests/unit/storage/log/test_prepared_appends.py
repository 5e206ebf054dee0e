"""Appends of batches that were validated off the event loop."""

import random
from dataclasses import replace

import pytest

from headwater.common.exceptions import ValidationDeferred
from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import Codec, read_header
from headwater.records.batch_preparation import LOOP_UNPACKED_BYTES, prepare_batch
from tests.simulation.labs.log_lab import START_MS, LogLab, records


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("compression_type", ["producer", "uncompressed", "gzip", "lz4"])
@pytest.mark.parametrize("policy", [("delete",), ("compact",)])
def test_a_prepared_batch_is_appended_as_the_same_bytes(
    codec: Codec, compression_type: str, policy: tuple[str, ...]
) -> None:
    """PV-5, CP-8"""
    labs = [
        LogLab(TopicSettings(compression_type=compression_type, cleanup_policy=policy))
        for _ in range(2)
    ]
    batch = build_batch(
        records(b"one", b"two", timestamp=START_MS),
        codec=codec,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
    )
    inline = labs[0].log.append_as_leader(bytearray(batch), leader_epoch=3, now_ms=START_MS)
    prepared = prepare_batch(bytearray(batch), labs[1].settings, now_ms=START_MS)
    appended = labs[1].log.append_prepared(prepared, leader_epoch=3, now_ms=START_MS)
    assert appended == inline
    assert labs[1].read_bytes() == labs[0].read_bytes()


def test_prepared_batch_is_a_duplicate_if_another_came_first() -> None:
    """IDP-2: duplicates are detected at the append, not when the batch is prepared."""
    lab = LogLab(TopicSettings(compression_type="zstd"))
    batch = build_batch(records(b"v"), producer_id=7, producer_epoch=0, base_sequence=0)
    prepared = [prepare_batch(bytearray(batch), lab.settings, now_ms=START_MS) for _ in range(2)]
    first, again = (
        lab.log.append_prepared(each, leader_epoch=0, now_ms=START_MS) for each in prepared
    )
    assert not first.is_duplicate
    assert again.is_duplicate
    assert lab.log.end_offset == 1


def test_batch_prepared_under_old_settings_is_stored_with_the_new_codec() -> None:
    """PV-5"""
    lab = LogLab(TopicSettings(compression_type="gzip"))
    prepared = prepare_batch(
        bytearray(build_batch(records(b"v" * 100))), lab.settings, now_ms=START_MS
    )
    lab.log.configure(replace(lab.settings, compression_type="zstd"))
    lab.log.append_prepared(prepared, leader_epoch=0, now_ms=START_MS)
    assert read_header(lab.read_bytes()).codec is Codec.ZSTD


def test_log_reports_which_batches_need_preparation() -> None:
    lab = LogLab(TopicSettings(compression_type="producer"))
    packed = build_batch(records(b"v" * 100), codec=Codec.LZ4)
    assert not lab.log.needs_preparation(packed)
    lab.log.configure(replace(lab.settings, compression_type="zstd"))
    assert lab.log.needs_preparation(packed)
    lab.log.configure(replace(lab.settings, compression_type="lz4"))
    assert not lab.log.needs_preparation(packed)


def test_expansive_batches_are_predicted_from_earlier_ones() -> None:
    """Otherwise each would be partly decompressed on the event loop for nothing."""
    log = LogLab().log

    def is_appended(value: bytes, codec: Codec) -> bool:
        batch = bytearray(build_batch(records(value, timestamp=START_MS), codec=codec))
        try:
            log.append_as_leader(batch, leader_epoch=0, now_ms=START_MS, may_defer=True)
        except ValidationDeferred:
            return False
        return True

    far, near = bytes(LOOP_UNPACKED_BYTES), random.Random(1).randbytes(2_000)
    assert is_appended(near, Codec.ZSTD)
    assert not is_appended(far, Codec.ZSTD)
    # It is the larger of the two as sent, so it is assumed to decompress far.
    assert is_appended(near, Codec.NONE)
    tried = [is_appended(near, Codec.ZSTD) for _ in range(300)]
    assert not tried[0]
    assert all(tried[200:])
    assert not is_appended(far, Codec.ZSTD)
