"""buffer.memory is granted first come, first served."""

import random

from headwater.client.producer.buffer_pool import BufferPool, MemoryClaim


def full(total_bytes: int = 1_000) -> BufferPool:
    """A pool without free memory."""
    memory = BufferPool(total_bytes, batch_bytes=100)
    assert memory.allocate(total_bytes)
    return memory


def test_a_large_claim_is_not_overtaken_by_small_ones() -> None:
    memory = full()
    large = memory.enqueue(800)
    memory.deallocate(500)
    assert not large.is_called
    assert not memory.allocate(100)
    small = memory.enqueue(100)
    memory.deallocate(300)
    assert large.is_called
    assert not small.is_called
    memory.deallocate(200)
    assert small.is_called


def test_granted_memory_is_reserved_until_it_is_taken() -> None:
    memory = full()
    claim = memory.enqueue(600)
    memory.deallocate(1_000)
    assert claim.is_called
    assert memory.free_bytes == 400
    assert not memory.allocate(500)
    assert memory.allocate(600, claim)
    assert memory.free_bytes == 400


def test_unused_granted_memory_goes_to_the_next_claim() -> None:
    memory = full()
    first, second = memory.enqueue(800), memory.enqueue(300)
    memory.deallocate(900)
    assert (first.is_called, second.is_called) == (True, False)
    memory.cancel(first)
    assert second.is_called
    assert memory.free_bytes == 600


def test_a_cancelled_claim_does_not_block_others() -> None:
    memory = full()
    first, second = memory.enqueue(900), memory.enqueue(300)
    memory.deallocate(500)
    assert not second.is_called
    memory.cancel(first)
    assert second.is_called
    memory.cancel(first)
    assert memory.free_bytes == 200


def test_a_claim_that_needs_more_is_served_first() -> None:
    memory = full()
    first, second = memory.enqueue(100), memory.enqueue(300)
    memory.deallocate(200)
    assert (first.is_called, second.is_called) == (True, False)
    assert not memory.allocate(250, first)
    assert memory.enqueue(250, first) is first
    memory.deallocate(300)
    assert (first.is_called, second.is_called) == (True, False)
    assert memory.allocate(250, first)
    assert memory.free_bytes == 250


def test_a_claim_called_in_vain_keeps_its_place_once() -> None:
    memory = full()
    claim = memory.enqueue(100)
    memory.enqueue(100, claim)
    memory.cancel(claim)
    assert memory.waiting_count == 0
    claim = memory.enqueue(100)
    memory.notify_all()
    assert claim.is_called
    memory.enqueue(100, claim)
    assert not claim.is_called
    memory.deallocate(100)
    assert not claim.is_called, "an eighth is not free"
    memory.deallocate(25)
    assert claim.is_called


def test_no_claim_is_overtaken_or_lost_in_any_order_of_events() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        memory = BufferPool(1_000, batch_bytes=50)
        held: list[int] = []
        line: list[MemoryClaim] = []
        for _ in range(100):
            needed = rng.choice((50, 60, 500, 1_000))
            match rng.randrange(4):
                case 0 | 1 if memory.allocate(needed):
                    assert not any(not claim.is_called for claim in line)
                    held.append(needed)
                case 0 | 1:
                    line.append(memory.enqueue(needed))
                case 2 if held:
                    memory.deallocate(held.pop(rng.randrange(len(held))))
                case 3 if line:
                    claim = line.pop(rng.randrange(len(line)))
                    if claim.is_called and rng.random() < 0.8:
                        assert memory.allocate(claim.needed_bytes, claim)
                        held.append(claim.needed_bytes)
                    memory.cancel(claim)
            calls = [claim.is_called for claim in line]
            assert calls == sorted(calls, reverse=True)
            granted = sum(claim.granted_bytes for claim in line)
            assert memory.free_bytes + granted + sum(held) == 1_000
        for size_bytes in held:
            memory.deallocate(size_bytes)
        while line:
            assert line[0].is_called
            memory.cancel(line.pop(0))
        assert memory.free_bytes == 1_000
