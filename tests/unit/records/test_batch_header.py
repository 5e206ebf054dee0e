"""Batch header, compared with bytes from an independent implementation."""

import pytest

from headwater.common.exceptions import (
    CorruptBatch,
    TruncatedBatch,
    UnknownCodec,
    UnsupportedMagic,
)
from headwater.records.batch_header import Codec, read_header, sequence_after

ONE_RECORD = bytes.fromhex(
    "00000000000000000000003affffffff02716a618900000000000000000000000003e8"
    "00000000000003e8ffffffffffffffffffffffffffff0000000110000000026b027600"
)
COMMIT_MARKER = bytes.fromhex(
    "0000000000000005000000420000000302d8b5a0d000300000000000000000000003e8"
    "00000000000003e800000000000000070000ffffffff000000012000000008000000010c00000000000200"
)


def test_header_is_parsed_field_by_field() -> None:
    header = read_header(ONE_RECORD)
    assert header.size_bytes == len(ONE_RECORD)
    assert (header.base_offset, header.next_offset, header.record_count) == (0, 1, 1)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1000)
    assert header.codec is Codec.NONE
    assert not header.has_producer
    assert header.last_sequence == -1


def test_a_commit_marker_is_transactional_control() -> None:
    header = read_header(COMMIT_MARKER)
    assert header.is_control
    assert header.is_transactional
    assert (header.base_offset, header.leader_epoch, header.producer_id) == (5, 3, 7)


def test_short_buffer_is_distinguished_from_corruption() -> None:
    with pytest.raises(TruncatedBatch):
        read_header(ONE_RECORD[:60])
    with pytest.raises(TruncatedBatch):
        read_header(ONE_RECORD[:-1])


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_format_is_reported_even_if_short(magic: int) -> None:
    old = bytearray(30)
    old[16] = magic
    with pytest.raises(UnsupportedMagic):
        read_header(old)


def test_invalid_length_is_rejected() -> None:
    lying = bytearray(ONE_RECORD)
    lying[8:12] = (48).to_bytes(4, "big")
    with pytest.raises(CorruptBatch):
        read_header(lying)


def test_unknown_codec_is_rejected() -> None:
    odd = bytearray(ONE_RECORD)
    odd[22] = 5
    with pytest.raises(UnknownCodec):
        _ = read_header(odd).codec


def test_sequences_wrap_to_zero() -> None:
    """IDP-7."""
    assert sequence_after(2**31 - 1, 1) == 0
    assert sequence_after(2**31 - 2, 3) == 1
    assert sequence_after(-1, 4) == -1
