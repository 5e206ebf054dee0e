"""However the bytes are cut on their way, the frames are the same."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.model.failures import ProtocolError
from headwater.wire.frames import FrameBuffer

LIMIT = 300_000

small_sizes = st.lists(st.integers(0, 60), max_size=8)
large_sizes = st.lists(st.integers(0, 200_000), max_size=5)
small_chunks = st.lists(st.integers(1, 30), min_size=1, max_size=10)
large_chunks = st.lists(st.integers(5_000, 150_000), min_size=1, max_size=10)


def cut(data: bytes, chunks: list[int]) -> tuple[list[bytes], bool]:
    """The frames found, and whether the connection had to be closed."""
    buffer = FrameBuffer(limit_bytes=LIMIT)
    found: list[bytes] = []
    position = turn = 0
    while position < len(data):
        room = buffer.room()
        count = min(chunks[turn % len(chunks)], len(room), len(data) - position)
        room[:count] = data[position : position + count]
        buffer.received(count)
        position += count
        turn += 1
        try:
            while (frame := buffer.next_frame()) is not None:
                found.append(bytes(frame))
        except ProtocolError:
            return found, True
    return found, False


@given(
    st.one_of(st.tuples(small_sizes, small_chunks), st.tuples(large_sizes, large_chunks)),
    st.binary(max_size=5),
)
def test_whole_frames_come_out_of_any_chunks(
    sizes_and_chunks: tuple[list[int], list[int]], rest: bytes
) -> None:
    sizes, chunks = sizes_and_chunks
    written = [bytes((number,)) * size for number, size in enumerate(sizes)]
    data = b"".join(len(body).to_bytes(4, "big") + body for body in written)
    assert cut(data, chunks) == (written, False)
    assert cut(data + rest, chunks) == cut(data + rest, [1 << 30])


@given(st.binary(max_size=400))
def test_any_bytes_are_cut_alike_in_one_go_and_byte_by_byte(data: bytes) -> None:
    assert cut(data, [1]) == cut(data, [1 << 20])
