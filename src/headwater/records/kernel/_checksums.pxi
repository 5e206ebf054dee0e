# CRC-32C without the GIL, using the CPU's instruction.
#
# The instruction has a latency of three cycles and a throughput of one, so three parts of a long
# string are processed in parallel and combined at the end. CPUs without it use the crc32c library,
# which needs the GIL.

cdef extern from *:
    """
    #include <string.h>

    #define CASTAGNOLI 0x82F63B78u

    /* Product of two polynomials modulo Castagnoli's, highest power in the lowest bit. */
    static uint32_t crc_product(uint32_t left, uint32_t right) {
        uint32_t product = 0;
        for (uint32_t bit = 0x80000000u; bit; bit >>= 1) {
            if (left & bit) product ^= right;
            right = right & 1 ? right >> 1 ^ CASTAGNOLI : right >> 1;
        }
        return product;
    }

    /* CRC after appending that many zero bytes. */
    static uint32_t crc_behind(uint32_t crc, uint64_t zero_bytes) {
        uint32_t power = 0x00800000u; /* x to the eighth */
        for (; zero_bytes; zero_bytes >>= 1) {
            if (zero_bytes & 1) crc = crc_product(power, crc);
            power = crc_product(power, power);
        }
        return crc;
    }

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <nmmintrin.h>

    static int has_crc32c_instruction(void) { return __builtin_cpu_supports("sse4.2"); }

    __attribute__((target("sse4.2")))
    static uint32_t serial_crc(uint32_t begun, const uint8_t *at, Py_ssize_t size) {
        uint64_t crc = begun, word;
        for (; size >= 8; at += 8, size -= 8) {
            memcpy(&word, at, 8);
            crc = _mm_crc32_u64(crc, word);
        }
        for (; size > 0; at++, size--) {
            crc = _mm_crc32_u8((uint32_t)crc, *at);
        }
        return (uint32_t)crc;
    }

    __attribute__((target("sse4.2")))
    static uint32_t quick_crc32c(const uint8_t *at, Py_ssize_t size) {
        uint64_t first = 0xFFFFFFFFu, second = 0, third = 0, word;
        Py_ssize_t part = size / 24 * 8, index;
        /* Combining the parts takes as long as processing some ten thousand bytes. */
        if (size < 65536) return ~serial_crc(0xFFFFFFFFu, at, size);
        for (index = 0; index < part; index += 8) {
            memcpy(&word, at + index, 8);
            first = _mm_crc32_u64(first, word);
            memcpy(&word, at + part + index, 8);
            second = _mm_crc32_u64(second, word);
            memcpy(&word, at + 2 * part + index, 8);
            third = _mm_crc32_u64(third, word);
        }
        third = serial_crc((uint32_t)third, at + 3 * part, size - 3 * part);
        first = crc_behind((uint32_t)first, part) ^ (uint32_t)second;
        return ~(crc_behind((uint32_t)first, size - 2 * part) ^ (uint32_t)third);
    }
    #else
    static int has_crc32c_instruction(void) { return 0; }
    static uint32_t quick_crc32c(const uint8_t *at, Py_ssize_t size) { return 0; }
    #endif
    """
    bint has_crc32c_instruction() noexcept nogil
    uint32_t crc_behind(uint32_t crc, uint64_t zero_bytes) noexcept nogil
    uint32_t quick_crc32c(const uint8_t* at, Py_ssize_t size) noexcept nogil

cdef enum:
    # For fewer bytes, releasing and reacquiring the GIL takes longer than the CRC.
    SHORT_BYTES = 32768

cdef bint CAN_BE_QUICK = has_crc32c_instruction()


cdef inline bint has_right_crc(
    object buffer, const uint8_t* base, Py_ssize_t start, Py_ssize_t end
) except -1:
    """Return whether the batch at these positions of a buffer has a valid CRC."""
    cdef uint32_t carried = <uint32_t>big_endian(base + start + CRC_START, 4)
    cdef uint32_t actual
    start += CRC_END
    if not CAN_BE_QUICK:
        return crc32c(memoryview(buffer)[start:end]) == carried
    if end - start <= SHORT_BYTES:
        return quick_crc32c(base + start, end - start) == carried
    with nogil:
        actual = quick_crc32c(base + start, end - start)
    return actual == carried


def combined_crc(uint32_t first, uint32_t second, uint64_t second_bytes):
    """Return the CRC of two concatenated strings from the CRCs of both."""
    return crc_behind(first, second_bytes) ^ second
