"""Messages of several topics in one order."""

from headwater.console.views.messages import merged
from headwater.console.views.record_decoder import Shown
from headwater.console.views.records import RecordRow

NOTHING = Shown(format="null", text="", size_bytes=0)


def row(offset: int, timestamp_ms: int | None) -> RecordRow:
    return RecordRow(
        partition=0,
        offset=offset,
        timestamp_ms=timestamp_ms,
        is_append_time=False,
        key=NOTHING,
        value=NOTHING,
        headers=(),
        all_headers=0,
    )


def test_messages_are_ordered_by_time_then_offset_with_unknown_times_last() -> None:
    found = merged(
        [("tea", [row(0, 5), row(1, 9), row(2, 9)]), ("cake", [row(7, 7), row(8, None)])]
    )
    assert [(each.topic, each.record.offset) for each in found] == [
        ("tea", 2),
        ("tea", 1),
        ("cake", 7),
        ("tea", 0),
        ("cake", 8),
    ]
