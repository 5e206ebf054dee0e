"""Random batches of producers, coordinators and leaders."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from typing import Literal

from crc32c import crc32c

from headwater.records.batch_building import build_batch
from headwater.records.batch_header import MAX_SEQUENCE, Codec, read_header
from headwater.records.control_batches import ControlType, build_marker
from headwater.records.record import Record
from headwater.storage.producer_state.producer_state_manager import AppendOrigin
from tests.simulation.worlds.producer_reference import Producers

IDEMPOTENT_IDS = (1, 2)
TRANSACTIONAL_IDS = (11, 12, 13)

_APPEND_TIME_FLAG = 0x08


@dataclass(frozen=True, slots=True)
class Made:
    """A batch without an offset, and its producer."""

    content: bytes
    origin: AppendOrigin
    what: str


class BatchMaker:
    """Makes the next batch, given the log's producer state."""

    def __init__(self, rng: random.Random, *, largest_value_bytes: int = 300) -> None:
        self._rng = rng
        self._largest_value_bytes = largest_value_bytes
        self._serial = 0

    def make(self, producers: Producers, now_ms: int) -> Made:
        roll = self._rng.random()
        if roll < 0.45:
            return Made(build_batch(self._records(now_ms), codec=self._codec()), _CLIENT, "plain")
        if roll < 0.65:
            return self._idempotent(producers, now_ms)
        if roll < 0.85:
            return self._transactional(producers, now_ms)
        return self._marker(producers, now_ms)

    def _idempotent(self, producers: Producers, now_ms: int) -> Made:
        producer_id = self._rng.choice(IDEMPOTENT_IDS)
        return self._of_producer(producers, producer_id, now_ms, is_transactional=False)

    def _transactional(self, producers: Producers, now_ms: int) -> Made:
        producer_id = self._rng.choice(TRANSACTIONAL_IDS)
        return self._of_producer(producers, producer_id, now_ms, is_transactional=True)

    def _of_producer(
        self, producers: Producers, producer_id: int, now_ms: int, *, is_transactional: bool
    ) -> Made:
        known = producers.get(producer_id)
        if known is None:
            epoch, sequence = self._rng.randint(0, 2), self._rng.choice([0, 7, MAX_SEQUENCE - 1])
        elif self._rng.random() < 0.1:
            epoch, sequence = known.epoch + 1, 0
        else:
            epoch = known.epoch
            sequence = (known.sent[-1].last_sequence + 1) & MAX_SEQUENCE if known.sent else 0
        content = build_batch(
            self._records(now_ms),
            codec=self._codec(),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        return Made(content, _CLIENT, f"producer {producer_id}/{epoch} sequence {sequence}")

    def _marker(self, producers: Producers, now_ms: int) -> Made:
        opened = [key for key, each in producers.items() if each.transaction_start >= 0]
        producer_id = self._rng.choice(opened or list(TRANSACTIONAL_IDS))
        known = producers.get(producer_id)
        epoch = (known.epoch if known else 0) + (self._rng.random() < 0.1)
        is_commit = self._rng.random() < 0.5
        kind: Literal[ControlType.COMMIT, ControlType.ABORT] = (
            ControlType.COMMIT if is_commit else ControlType.ABORT
        )
        content = build_marker(
            kind,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=max(known.coordinator_epoch if known else 0, 0)
            + self._rng.randint(0, 1),
            timestamp=now_ms,
        )
        return Made(content, AppendOrigin.COORDINATOR, f"{kind.name} {producer_id}/{epoch}")

    def _records(self, now_ms: int) -> list[Record]:
        rng = self._rng
        limit = self._largest_value_bytes if rng.random() < 0.8 else 8 * self._largest_value_bytes
        return [self._record(now_ms, limit) for _ in range(rng.choice([1, 1, 2, 5]))]

    def _record(self, now_ms: int, limit_bytes: int) -> Record:
        self._serial += 1
        rng = self._rng
        value: bytes | None = b"%d:" % self._serial + rng.randbytes(rng.randint(0, limit_bytes))
        if rng.random() < 0.1:
            value = None
        timestamp = now_ms + rng.randint(-5_000, 1_000) if rng.random() < 0.9 else 1
        return Record(key=b"key-%d" % rng.randint(0, 9), value=value, timestamp=timestamp)

    def _codec(self) -> Codec:
        return self._rng.choice([Codec.NONE, Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD])


_CLIENT = AppendOrigin.CLIENT


def placed(
    content: bytes, *, base_offset: int, leader_epoch: int, append_time_ms: int | None = None
) -> bytes:
    """The bytes that a leader must store, built from the format and not by the code under test."""
    batch = bytearray(content)
    struct.pack_into(">q", batch, 0, base_offset)
    struct.pack_into(">i", batch, 12, leader_epoch)
    header = read_header(batch)
    if append_time_ms is not None and not header.is_control:
        struct.pack_into(">h", batch, 21, header.attributes | _APPEND_TIME_FLAG)
        struct.pack_into(">q", batch, 35, append_time_ms)
        struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return bytes(batch)
