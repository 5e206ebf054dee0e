"""Blocks are reused when no view of them is left, and not before."""

from headwater.storage.io.read_buffers import BLOCK_BYTES, ReadBufferPool


def test_block_is_reused_when_its_last_view_is_released() -> None:
    memory = ReadBufferPool(limit=1)
    first = memory.take(10)
    first[:] = b"0123456789"
    block = first.obj
    part = first[2:4]
    del first
    second = memory.take(10)
    assert second.obj is not block
    assert bytes(part) == b"23"
    del part, second
    del block
    assert bytes(memory.take(10)) == b"0123456789"


def test_concurrent_buffers_are_distinct() -> None:
    memory = ReadBufferPool(limit=4)
    taken = [memory.take(1) for _ in range(6)]
    for index, each in enumerate(taken):
        each[0] = index
    assert [each[0] for each in taken] == [0, 1, 2, 3, 4, 5]


def test_buffer_larger_than_a_block_is_contiguous() -> None:
    taken = ReadBufferPool(limit=1).take(3 * BLOCK_BYTES + 5)
    taken[-1] = 7
    assert len(taken) == 3 * BLOCK_BYTES + 5
