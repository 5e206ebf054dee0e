"""OffsetMap of the pure kernel for compaction; used through `pure_kernel`."""

import hashlib

from headwater.common.exceptions import CorruptBatch
from headwater.records.batch_header import Buffer
from headwater.records.record_walk import walk_records

MAP_ENTRY_BYTES = 24
MAP_SEED_BYTES = 16


class OffsetMap:
    """Newest offset of each key, in bounded memory. Kafka: SkimpyOffsetMap.

    Keys are stored as a keyed 128-bit hash only, so memory does not depend on their length and
    clients cannot choose colliding keys. At `capacity` a new key is refused; known ones can still
    be updated.
    """

    def __init__(self, memory_bytes: int, load_factor: float, seed: bytes) -> None:
        assert len(seed) == MAP_SEED_BYTES, "the seed of an offset map has 16 bytes"
        assert 0 < load_factor < 1, "an offset map must keep some slots free"
        self.capacity = int(memory_bytes // MAP_ENTRY_BYTES * load_factor)
        self.latest_offset = -1
        self._seed = seed
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: Buffer, offset: int) -> bool:
        """Store the offset for the key; return False if the map is full."""
        assert offset >= 0, "offsets are not negative"
        digest = self._hash(key)
        if len(self._offsets) >= self.capacity and digest not in self._offsets:
            return False
        self._offsets[digest] = offset
        return True

    def get(self, key: Buffer) -> int:
        """Return the offset last stored for the key, or -1."""
        return self._offsets.get(self._hash(key), -1)

    def _hash(self, key: Buffer) -> bytes:
        return hashlib.blake2b(key, digest_size=16, key=self._seed).digest()


def map_records(offset_map: OffsetMap, payload: Buffer, record_count: int, base_offset: int) -> int:
    """Store a batch's keyed records; return how many fit into the map.

    `latest_offset` follows the processed records, including those without a key. If the section
    cannot be read to its end, nothing is stored.
    """
    view = memoryview(payload)
    taken = 0
    for record in list(walk_records(view, record_count)):
        offset = int64(base_offset + record.offset_delta)
        if offset < 0:
            raise CorruptBatch("an offset below zero")
        if record.key_length >= 0:
            key = view[record.key : record.key + record.key_length]
            if not offset_map.put(key, offset):
                break
        offset_map.latest_offset = max(offset_map.latest_offset, offset)
        taken += 1
    return taken


def keep_mask(
    offset_map: OffsetMap,
    payload: Buffer,
    record_count: int,
    base_offset: int,
    keep_tombstones: bool,
) -> tuple[bytes, int, int]:
    """Return which records compaction keeps (CP-3), and their counts.

    The result is a mask of 0 and 1, the number of kept records and the number of kept tombstones.
    """
    view = memoryview(payload)
    mask = bytearray()
    tombstones = 0
    for record in walk_records(view, record_count):
        offset = int64(base_offset + record.offset_delta)
        is_tombstone = record.value_length < 0
        if offset > offset_map.latest_offset:
            keeps = True
        elif record.key_length < 0:
            keeps = False
        else:
            newest = offset_map.get(view[record.key : record.key + record.key_length])
            keeps = offset >= newest and (keep_tombstones or not is_tombstone)
        mask.append(keeps)
        tombstones += keeps and is_tombstone
    return bytes(mask), mask.count(1), tombstones


def int64(number: int) -> int:
    """Wrap around like 64-bit arithmetic: both kernels agree on malicious deltas."""
    return (number + 2**63) % 2**64 - 2**63
