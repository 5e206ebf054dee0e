"""Lookups by offset and by timestamp, compared with a scan of all records."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.common.settings.topic_settings import TopicSettings
from headwater.records.batch_header import Codec
from headwater.records.record import Record
from headwater.storage.log.timestamp_lookup import TimedOffset
from headwater.storage.log.unified_log import ReadBound
from tests.simulation.labs.log_lab import START_MS, LogLab

BATCHES = st.lists(st.lists(st.integers(-1, 9), min_size=1, max_size=5), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(
    batches=BATCHES,
    segment_bytes=st.sampled_from([200, 1000, 5000]),
    interval=st.sampled_from([0, 100, 300]),
    drift=st.sampled_from([0, 1, 5]),
    append_time=st.booleans(),
    restart=st.sampled_from(["no", "clean", "crash"]),
    start=st.integers(0, 40),
)
def test_lookups_find_what_a_scan_finds(
    batches: list[list[int]],
    segment_bytes: int,
    interval: int,
    drift: int,
    append_time: bool,
    restart: str,
    start: int,
) -> None:
    """LO-1, LO-2, LO-3, FT-3"""
    lab = LogLab(
        TopicSettings(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            message_timestamp_type="LogAppendTime" if append_time else "CreateTime",
        )
    )
    expected: list[TimedOffset] = []
    for number, jitter in enumerate(batches):
        times = [each + drift * number for each in jitter]
        # The broker's clock advances with every second batch.
        lab.now_ms = START_MS + number // 2
        records = [Record(value=b"x" * 20, timestamp=time) for time in times]
        appended = lab.append(records, leader_epoch=number // 5, codec=Codec(number % 5))
        stamps = [lab.now_ms] * len(times) if append_time else times
        expected += [
            TimedOffset(appended.base_offset + index, time, number // 5)
            for index, time in enumerate(stamps)
        ]
    if restart == "clean":
        lab.reopen()
    elif restart == "crash":
        lab.crash()
    start = min(start, len(expected))
    lab.log.delete_records_below(start)
    readable = expected[start:]
    for timestamp in {each.timestamp + step: None for each in expected for step in (0, 1)}:
        found = next((each for each in readable if each.timestamp >= timestamp), None)
        assert lab.log.first_since(timestamp) == found
    if start == 0:
        largest = max(each.timestamp for each in expected)
        assert lab.log.with_largest_timestamp() == next(
            each for each in expected if each.timestamp == largest
        )
    for offset in range(start, len(expected)):
        assert lab.contents(offset)[0][0] == offset
        read = lab.log.read(offset, max_bytes=1, bound=ReadBound.LOG_END)
        assert read.range is not None
