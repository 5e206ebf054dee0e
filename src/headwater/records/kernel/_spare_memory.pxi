# Pool of large memory blocks for reuse, and mappings, which are not reused.
#
# Linux zeroes every fresh page, which costs more than decoding records into it, and malloc
# returns large blocks to the operating system at once. So a few are kept. All of this runs under
# the GIL.

cdef enum:
    SPARE_BLOCKS = 16
    SPARE_BYTES = 67108864
    SMALLEST_SPARE_BYTES = 65536

cdef struct Spare:
    void* block
    Py_ssize_t size

cdef Spare spares[SPARE_BLOCKS]
cdef int spare_count = 0
cdef Py_ssize_t spare_bytes = 0


cdef void* take_block(Py_ssize_t size) noexcept:
    """Return the smallest block that fits, or NULL. A far too large one is left for others."""
    global spare_count, spare_bytes
    cdef int index, best = -1
    cdef void* block
    for index in range(spare_count):
        if size <= spares[index].size <= 2 * size and (
            best < 0 or spares[index].size < spares[best].size
        ):
            best = index
    if best < 0:
        return malloc(size)
    block = spares[best].block
    spare_bytes -= spares[best].size
    spare_count -= 1
    spares[best] = spares[spare_count]
    return block


cdef void give_block(void* block, Py_ssize_t size) noexcept:
    """Return a block with at least `size` usable bytes to the pool."""
    global spare_count, spare_bytes
    if (
        block == NULL
        or size < SMALLEST_SPARE_BYTES
        or spare_count == SPARE_BLOCKS
        or spare_bytes + size > SPARE_BYTES
    ):
        free(block)
        return
    spares[spare_count].block = block
    spares[spare_count].size = size
    spare_count += 1
    spare_bytes += size


cdef class Owned:
    """Block of malloc memory that Arrow can adopt; freed with its last reference."""

    cdef void* block
    cdef Py_ssize_t size
    cdef Py_ssize_t room
    cdef bint is_writable

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.block, self.size, not self.is_writable, flags)

    def __dealloc__(self):
        give_block(self.block, self.room)


cdef object adopt(void** block, Py_ssize_t size, Py_ssize_t room):
    """Wrap the first bytes of a block in a buffer that takes ownership of the block."""
    cdef Owned owned = Owned()
    owned.block = block[0]
    owned.size = size
    owned.room = room
    block[0] = NULL
    return memoryview(owned)


def new_block(Py_ssize_t size_bytes):
    """Return memory with undefined content."""
    cdef Owned owned = Owned()
    if size_bytes < 0:
        raise ValueError("size must not be negative")
    owned.block = take_block(max(size_bytes, 1))
    if owned.block == NULL:
        raise MemoryError
    owned.size = size_bytes
    owned.room = size_bytes
    owned.is_writable = True
    return memoryview(owned)


cdef extern from "sys/mman.h" nogil:
    void* mmap(void* address, size_t length, int protection, int flags, int file, Py_ssize_t offset)
    int munmap(void* address, size_t length)
    int PROT_READ
    int PROT_WRITE
    int MAP_PRIVATE
    int MAP_ANONYMOUS
    void* MAP_FAILED


cdef class Mapping:
    """Anonymous mapping: allocates pages as they are written and returns all of them at the end."""

    cdef void* block
    cdef Py_ssize_t size

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.block, self.size, False, flags)

    def __dealloc__(self):
        if self.block != NULL:
            # Unmapping a hundred megabytes takes milliseconds, and other threads can run meanwhile.
            with nogil:
                munmap(self.block, self.size)


def new_mapping(Py_ssize_t size_bytes):
    """Return zeroed memory. For large buffers, which malloc might keep."""
    cdef Mapping mapping = Mapping()
    cdef void* block
    if size_bytes <= 0:
        raise ValueError("a mapping must have at least one byte")
    block = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    if block == MAP_FAILED:
        raise MemoryError
    mapping.block = block
    mapping.size = size_bytes
    return memoryview(mapping)
