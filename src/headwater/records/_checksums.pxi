# The CRC-32C of short strings, where the processor has an instruction for it.
#
# The library of that name is faster for long ones, but to call it costs more than the checksum of a
# batch with one record does.

cdef extern from *:
    """
    #if defined(__x86_64__) && defined(__GNUC__)
    #include <nmmintrin.h>
    #include <string.h>

    static int has_crc32c_instruction(void) { return __builtin_cpu_supports("sse4.2"); }

    __attribute__((target("sse4.2")))
    static uint32_t short_crc32c(const uint8_t *at, Py_ssize_t size) {
        uint64_t crc = 0xFFFFFFFFu, word;
        for (; size >= 8; at += 8, size -= 8) {
            memcpy(&word, at, 8);
            crc = _mm_crc32_u64(crc, word);
        }
        for (; size > 0; at++, size--) {
            crc = _mm_crc32_u8((uint32_t)crc, *at);
        }
        return ~(uint32_t)crc;
    }
    #else
    static int has_crc32c_instruction(void) { return 0; }
    static uint32_t short_crc32c(const uint8_t *at, Py_ssize_t size) { return 0; }
    #endif
    """
    bint has_crc32c_instruction() noexcept nogil
    uint32_t short_crc32c(const uint8_t* at, Py_ssize_t size) noexcept nogil

cdef enum:
    SHORT_BYTES = 2048

cdef bint CAN_BE_SHORT = has_crc32c_instruction()


cdef inline bint has_right_crc(
    object buffer, const uint8_t* base, Py_ssize_t start, Py_ssize_t end
) except -1:
    """Whether the batch at these places of a buffer carries the checksum of its bytes."""
    cdef uint32_t carried = <uint32_t>big_endian(base + start + CRC_START, 4)
    start += CRC_END
    if CAN_BE_SHORT and end - start <= SHORT_BYTES:
        return short_crc32c(base + start, end - start) == carried
    return crc32c(memoryview(buffer)[start:end]) == carried
