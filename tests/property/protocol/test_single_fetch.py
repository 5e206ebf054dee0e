"""The direct encoding of a Fetch response equals that of the codec."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.common.ids import TopicId
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.codec import write
from headwater.protocol.headers import response_frame
from headwater.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from headwater.protocol.single_fetch import SINGLE_FETCH_SINCE, SingleFetched, write_single_fetched
from tests.unit.protocol.bytes_of import joined

API = APIS[ApiKey.FETCH]

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)


@given(
    st.integers(SINGLE_FETCH_SINCE, API.newest),
    int32,
    st.builds(
        SingleFetched,
        int32,
        st.text("abc-._é", min_size=1, max_size=249),
        st.binary(min_size=16, max_size=16).map(TopicId),
        int32,
        int64,
        int64,
        int64,
        st.booleans(),
    ),
    st.binary(max_size=3_000),
)
def test_single_fetch_response_equals_the_codecs_bytes(
    version: int, correlation_id: int, fetched: SingleFetched, records: bytes
) -> None:
    data = PartitionData(
        partition_index=fetched.partition,
        high_watermark=fetched.high_watermark,
        last_stable_offset=fetched.last_stable_offset,
        log_start_offset=fetched.log_start_offset,
        aborted_transactions=() if fetched.lists_aborted else None,
        records=records,
    )
    topic = FetchableTopicResponse(
        topic=fetched.topic, topic_id=fetched.topic_id, partitions=(data,)
    )
    message = FetchResponse(session_id=fetched.session_id, responses=(topic,))
    expected = response_frame(API, version, correlation_id, write(message, version))
    written = write_single_fetched(version, correlation_id, fetched, records)
    assert joined(written) == joined(expected)
