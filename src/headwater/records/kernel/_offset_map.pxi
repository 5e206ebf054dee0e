# OffsetMap of compaction, and the functions that apply it to records.

cdef struct Digest:
    uint64_t low
    uint64_t high


cdef struct Entry:
    # An empty slot is all zeros: offsets are stored plus one.
    Digest digest
    int64_t offset_plus_one


cdef inline uint64_t rotate(uint64_t word, int bits) noexcept nogil:
    return word << bits | word >> (64 - bits)


cdef inline void sip_rounds(uint64_t* v, int rounds) noexcept nogil:
    cdef int index
    for index in range(rounds):
        v[0] += v[1]
        v[2] += v[3]
        v[1] = rotate(v[1], 13) ^ v[0]
        v[3] = rotate(v[3], 16) ^ v[2]
        v[0] = rotate(v[0], 32)
        v[2] += v[1]
        v[0] += v[3]
        v[1] = rotate(v[1], 17) ^ v[2]
        v[3] = rotate(v[3], 21) ^ v[0]
        v[2] = rotate(v[2], 32)


cdef inline uint64_t little_endian(const uint8_t* at, Py_ssize_t size) noexcept nogil:
    cdef uint64_t word = 0
    cdef Py_ssize_t index
    for index in range(size):
        word |= <uint64_t>at[index] << (8 * index)
    return word


cdef Digest siphash(const uint64_t* seed, const uint8_t* data, Py_ssize_t size) noexcept nogil:
    """SipHash-2-4 with a 128-bit result."""
    cdef uint64_t v[4]
    cdef uint64_t word
    cdef Py_ssize_t position = 0
    cdef Digest digest
    v[0] = seed[0] ^ 0x736F6D6570736575U
    v[1] = seed[1] ^ 0x646F72616E646F6DU ^ 0xEE
    v[2] = seed[0] ^ 0x6C7967656E657261U
    v[3] = seed[1] ^ 0x7465646279746573U
    while size - position >= 8:
        word = little_endian(data + position, 8)
        v[3] ^= word
        sip_rounds(v, 2)
        v[0] ^= word
        position += 8
    word = <uint64_t>size << 56 | little_endian(data + position, size - position)
    v[3] ^= word
    sip_rounds(v, 2)
    v[0] ^= word
    v[2] ^= 0xEE
    sip_rounds(v, 4)
    digest.low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    sip_rounds(v, 4)
    digest.high = v[0] ^ v[1] ^ v[2] ^ v[3]
    return digest


def siphash128(seed, data):
    """Return the keyed hash that `OffsetMap` uses for keys; exposed for its test vectors."""
    cdef Borrowed key = Borrowed(seed)
    cdef Borrowed source = Borrowed(data)
    cdef uint64_t words[2]
    cdef Digest digest
    assert key.size == MAP_SEED_BYTES, "the seed of an offset map has 16 bytes"
    words[0] = little_endian(key.bytes, 8)
    words[1] = little_endian(key.bytes + 8, 8)
    digest = siphash(words, source.bytes, source.size)
    return digest.low.to_bytes(8, "little") + digest.high.to_bytes(8, "little")


cdef class OffsetMap:
    """Newest offset of each key, in bounded memory: open addressing with linear probing."""

    cdef Entry* entries
    cdef Py_ssize_t slots
    cdef Py_ssize_t size
    cdef uint64_t seed[2]
    cdef readonly Py_ssize_t capacity
    cdef public int64_t latest_offset

    def __cinit__(self, Py_ssize_t memory_bytes, double load_factor, seed):
        cdef Borrowed key = Borrowed(seed)
        assert key.size == MAP_SEED_BYTES, "the seed of an offset map has 16 bytes"
        assert 0 < load_factor < 1, "an offset map must keep some slots free"
        assert sizeof(Entry) == MAP_ENTRY_BYTES
        self.seed[0] = little_endian(key.bytes, 8)
        self.seed[1] = little_endian(key.bytes + 8, 8)
        self.slots = max(memory_bytes, 0) // MAP_ENTRY_BYTES
        self.capacity = <Py_ssize_t>(self.slots * load_factor)
        self.latest_offset = -1
        self.entries = <Entry*>calloc(self.slots + 1, sizeof(Entry))
        if self.entries == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.entries)

    def __len__(self):
        return self.size

    cdef Entry* find(self, const uint8_t* key, Py_ssize_t length, Digest* digest) noexcept nogil:
        """Return the key's entry, or the empty slot for it; there is always an empty slot."""
        cdef Py_ssize_t slot
        cdef Entry* entry
        digest[0] = siphash(self.seed, key, length)
        slot = <Py_ssize_t>(digest.low % <uint64_t>(self.slots + 1))
        while True:
            entry = self.entries + slot
            if entry.offset_plus_one == 0:
                return entry
            if entry.digest.low == digest.low and entry.digest.high == digest.high:
                return entry
            slot = 0 if slot == self.slots else slot + 1

    cdef bint insert(self, const uint8_t* key, Py_ssize_t length, int64_t offset) noexcept nogil:
        cdef Digest digest
        cdef Entry* entry = self.find(key, length, &digest)
        if entry.offset_plus_one == 0:
            if self.size >= self.capacity:
                return False
            self.size += 1
            entry.digest = digest
        entry.offset_plus_one = offset + 1
        return True

    def put(self, key, int64_t offset):
        """Store the offset for the key; return False if the map is full."""
        cdef Borrowed source = Borrowed(key)
        assert offset >= 0, "offsets are not negative"
        return bool(self.insert(source.bytes, source.size, offset))

    def get(self, key):
        """Return the offset last stored for the key, or -1."""
        cdef Borrowed source = Borrowed(key)
        cdef Digest digest
        return self.find(source.bytes, source.size, &digest).offset_plus_one - 1


def map_records(OffsetMap offset_map not None, payload, Py_ssize_t record_count, int64_t base_offset):
    """Store the keyed records of a batch; return how many were processed."""
    cdef Borrowed source = Borrowed(payload)
    cdef const uint8_t* base = source.bytes
    cdef Py_ssize_t size = source.size
    cdef Places record
    cdef Py_ssize_t index, position = 0, taken = 0
    cdef int64_t offset
    cdef int status = OK
    check_section(source, record_count)
    with nogil:
        for index in range(record_count):
            read_record(base, position, size, &record)
            position = record.end
            offset = add64(base_offset, record.offset_delta)
            if offset < 0:
                status = NEGATIVE_OFFSET
                break
            if record.key_length >= 0 and not offset_map.insert(
                base + record.key, record.key_length, offset
            ):
                break
            if offset > offset_map.latest_offset:
                offset_map.latest_offset = offset
            taken += 1
    if status != OK:
        raise_status(status)
    return taken


def keep_mask(
    OffsetMap offset_map not None,
    payload,
    Py_ssize_t record_count,
    int64_t base_offset,
    bint keep_tombstones,
):
    """Return which records compaction keeps (CP-3), and their counts."""
    cdef Borrowed source = Borrowed(payload)
    cdef const uint8_t* base = source.bytes
    cdef Py_ssize_t size = source.size
    cdef Places record
    cdef Digest digest
    cdef Py_ssize_t index, position = 0, kept = 0, tombstones = 0
    cdef int64_t offset, newest
    cdef bint keeps
    check_section(source, record_count)
    cdef bytes mask = PyBytes_FromStringAndSize(NULL, record_count)
    cdef char* marks = PyBytes_AS_STRING(mask)
    with nogil:
        for index in range(record_count):
            read_record(base, position, size, &record)
            position = record.end
            offset = add64(base_offset, record.offset_delta)
            if offset > offset_map.latest_offset:
                keeps = True
            elif record.key_length < 0:
                keeps = False
            else:
                newest = offset_map.find(base + record.key, record.key_length, &digest).offset_plus_one - 1
                keeps = offset >= newest and (keep_tombstones or record.value_length >= 0)
            marks[index] = keeps
            kept += keeps
            tombstones += keeps and record.value_length < 0
    return mask, kept, tombstones
