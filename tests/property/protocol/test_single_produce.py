"""The kernel's shortcut for Produce gives the same as the codec, or returns None."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.common.exceptions import ProtocolError
from headwater.common.ids import TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import read, write
from headwater.protocol.headers import read_request_header, request_frame, response_frame
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from headwater.records.kernel import _kernel, pure_kernel
from headwater.records.kernel.single_produce import SingleProduce
from tests.unit.protocol.bytes_of import joined

API = APIS[ApiKey.PRODUCE]
FIRST = 8
IDS_SINCE = 13

versions = st.integers(FIRST, API.newest)
names = st.text("abc-._", min_size=1, max_size=126)
ids = st.binary(min_size=16, max_size=16).map(TopicId)
int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)


@st.composite
def requests(draw: st.DrawFn, *, topics: int = 1, partitions: int = 1) -> ProduceRequest:
    def partition() -> PartitionProduceData:
        records = draw(st.binary(min_size=1, max_size=300))
        return PartitionProduceData(index=draw(int32), records=memoryview(records))

    def topic() -> TopicProduceData:
        data = tuple(partition() for _ in range(partitions))
        return TopicProduceData(name=draw(names), topic_id=draw(ids), partition_data=data)

    return ProduceRequest(
        acks=draw(int16),
        timeout_ms=draw(int32),
        topic_data=tuple(topic() for _ in range(topics)),
    )


def frame_of(request: ProduceRequest, version: int) -> memoryview:
    parts = request_frame(API, version, 7, "client", write(request, version))
    return memoryview(bytearray(joined(parts)))[4:]


def single_of(frame: memoryview) -> SingleProduce | None:
    """Return what both kernels return, which must be equal."""
    single = _kernel.read_single_produce(frame)
    assert single == pure_kernel.read_single_produce(frame)
    return single


@given(requests(), versions)
def test_single_produce_is_parsed_like_by_the_codec(request: ProduceRequest, version: int) -> None:
    single = single_of(frame_of(request, version))
    (topic,) = request.topic_data
    (data,) = topic.partition_data
    name = topic.topic_id if version >= IDS_SINCE else topic.name.encode()
    assert single == (version, 7, request.acks, name, data.index, data.records)


@given(
    requests(topics=2) | requests(partitions=2) | requests(topics=0) | requests(partitions=0),
    versions,
)
def test_other_numbers_of_batches_are_left_to_the_codec(
    request: ProduceRequest, version: int
) -> None:
    assert single_of(frame_of(request, version)) is None


@given(requests(), st.integers(3, FIRST - 1))
def test_older_versions_are_left_to_the_codec(request: ProduceRequest, version: int) -> None:
    assert single_of(frame_of(request, version)) is None


@given(requests(), versions, st.data())
def test_frames_accepted_by_the_shortcut_are_accepted_by_the_codec(
    request: ProduceRequest, version: int, data: st.DataObject
) -> None:
    frame = frame_of(request, version)
    at = data.draw(st.integers(0, len(frame) - 1))
    frame[at] = data.draw(st.integers(0, 255))
    cut = frame[: data.draw(st.sampled_from([len(frame), at]))]
    single = single_of(cut)
    if single is None:
        return
    header = read_request_header(cut)
    assert header.api.key is ApiKey.PRODUCE
    assert (header.version, header.correlation_id) == (single.version, single.correlation_id)
    try:
        known = read(ProduceRequest, header.version, cut[header.body_position :])
    except ProtocolError:
        # An invalid UTF-8 name: no topic has it, so it is never found.
        assert "\ufffd" in single.topic.decode(errors="replace")
        return
    (topic,) = known.topic_data
    (partition,) = topic.partition_data
    assert known.transactional_id is None
    assert (single.acks, single.partition, single.records) == (
        known.acks,
        partition.index,
        partition.records,
    )


@given(requests(), versions, st.binary(min_size=1, max_size=4))
def test_trailing_bytes_are_left_to_the_codec(
    request: ProduceRequest, version: int, behind: bytes
) -> None:
    frame = memoryview(bytes(frame_of(request, version)) + behind)
    assert single_of(frame) is None


@given(versions, names, ids, st.tuples(int32, int32, int64, int64, int64))
def test_response_equals_the_codecs_bytes(
    version: int, name: str, topic_id: TopicId, numbers: tuple[int, int, int, int, int]
) -> None:
    correlation_id, index, base_offset, append_time_ms, log_start_offset = numbers
    partition = PartitionProduceResponse(
        index=index,
        base_offset=base_offset,
        log_append_time_ms=append_time_ms,
        log_start_offset=log_start_offset,
    )
    topic = TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=(partition,))
    body = write(ProduceResponse(responses=(topic,)), version)
    expected = response_frame(API, version, correlation_id, body)
    sent = bytes(topic_id) if version >= IDS_SINCE else name.encode()
    produce = SingleProduce(version, correlation_id, 1, sent, index, memoryview(b""))
    for kernel in (_kernel, pure_kernel):
        written = kernel.write_single_produce(
            produce, base_offset, append_time_ms, log_start_offset
        )
        assert written == joined(expected)


@given(st.binary(max_size=80))
def test_random_bytes_are_left_to_the_codec(noise: bytes) -> None:
    single_of(memoryview(noise))
    single_of(memoryview(b"\0\0\0\x09" + noise))
