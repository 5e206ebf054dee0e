"""Blocks are used again when nobody looks at them any more, and not a moment sooner."""

from headwater.storage.io.read_buffers import BLOCK_BYTES, ReadBufferPool


def test_a_block_is_used_again_when_its_last_view_is_gone() -> None:
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


def test_two_that_are_taken_at_the_same_time_are_not_the_same() -> None:
    memory = ReadBufferPool(limit=4)
    taken = [memory.take(1) for _ in range(6)]
    for index, each in enumerate(taken):
        each[0] = index
    assert [each[0] for each in taken] == [0, 1, 2, 3, 4, 5]


def test_what_is_larger_than_a_block_is_whole() -> None:
    taken = ReadBufferPool(limit=1).take(3 * BLOCK_BYTES + 5)
    taken[-1] = 7
    assert len(taken) == 3 * BLOCK_BYTES + 5
