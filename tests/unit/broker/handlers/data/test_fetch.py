"""Fetch: answered at once, when data arrives, or at its timeout."""

from collections.abc import Sequence
from pathlib import PurePath

import pytest

from headwater.broker.handlers.data import fetch as fetch_handler
from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headwater.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from headwater.records.batch_header import read_header
from headwater.records.record_reader import read_records
from tests.simulation.labs.broker_lab import DATA, BrokerLab, Sent

NAMES_UP_TO = 12


@pytest.fixture(autouse=True, params=[200, 0], ids=["whole", "in steps"])
def whole_partitions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run every test for a fetch in one piece and for a fetch in steps."""
    count: int = request.param
    monkeypatch.setattr(fetch_handler, "_WHOLE_PARTITIONS", count)
    monkeypatch.setattr(fetch_handler, "STEP_PARTITIONS", 1 if count == 0 else 50)
    return count


def fetch(
    lab: BrokerLab,
    *topics: str,
    offset: int = 0,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    session: tuple[int, int] = (0, -1),
) -> Sent:
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        session_id=session[0],
        session_epoch=session[1],
        topics=tuple(
            FetchTopic(
                topic=each,
                partitions=(FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20),),
            )
            for each in topics
        ),
    )
    return lab.send(request, NAMES_UP_TO)


def partitions(sent: Sent) -> list[PartitionData]:
    response = sent.answer(FetchResponse)
    return [each for topic in response.responses for each in topic.partitions]


def values(data: PartitionData) -> Sequence[bytes | None]:
    """Return the values of the records, of several batches too."""
    records = data.records
    assert isinstance(records, memoryview)
    found: list[bytes | None] = []
    position = 0
    while position < len(records):
        header = read_header(records, position)
        found += [record.value for record in read_records(records, header, position)]
        position += header.size_bytes
    return found


def ready(*topics: str) -> BrokerLab:
    lab = BrokerLab()
    for each in topics:
        lab.create(each)
    return lab


def test_available_records_are_sent_at_once() -> None:
    lab = ready("t")
    lab.produce("t", b"1", b"2")
    sent = fetch(lab, "t")
    (found,) = partitions(sent)
    assert values(found) == [b"1", b"2"]
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (2, 2, 0)
    assert len(lab.broker.timer) == 0


def test_empty_fetch_waits_without_blocking_its_connection() -> None:
    """FT-3: Produce and Fetch of one connection may overlap."""
    lab = ready("t")
    sent = fetch(lab, "t")
    assert not sent.is_answered
    assert not sent.is_held
    lab.produce("t", b"1")
    assert [values(each) for each in partitions(sent)] == [[b"1"]]
    assert len(lab.broker.timer) == 0


def test_fetch_waits_for_min_bytes() -> None:
    lab = ready("t", "u")
    sent = fetch(lab, "t", "u", min_bytes=150)
    lab.produce("t", b"x" * 50)
    assert not sent.is_answered
    lab.produce("u", b"y" * 50)
    assert [values(each) for each in partitions(sent)] == [[b"x" * 50], [b"y" * 50]]


def test_fetch_is_answered_at_max_wait_ms_with_what_is_there() -> None:
    lab = ready("t")
    sent = fetch(lab, "t", min_bytes=1_000, max_wait_ms=500)
    lab.produce("t", b"1")
    lab.pass_time(499)
    assert not sent.is_answered
    lab.pass_time(1)
    assert [values(each) for each in partitions(sent)] == [[b"1"]]
    assert len(lab.broker.timer) == 0


def test_fetch_with_max_wait_0_is_answered_at_once() -> None:
    lab = ready("t")
    (found,) = partitions(fetch(lab, "t", max_wait_ms=0))
    assert (found.error_code, values(found), found.high_watermark) == (ErrorCode.NONE, [], 0)


def test_delayed_fetch_of_a_deleted_topic_gets_an_error() -> None:
    lab = ready("t")
    sent = fetch(lab, "t")
    gone = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=1_000)
    lab.ask(gone, DeleteTopicsResponse)
    assert [each.error_code for each in partitions(sent)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_delayed_fetch_of_a_closed_connection_ends_with_the_next_append() -> None:
    lab = ready("t")
    sent = fetch(lab, "t")
    sent.peer.close()
    lab.produce("t", b"1")
    assert sent.was_silent
    assert len(lab.broker.timer) == 0
    assert not any(each.readers for each in lab.broker.partitions)


def test_offset_out_of_range_is_answered_at_once() -> None:
    """FT-12."""
    lab = ready("t", "u")
    lab.produce("t", b"1")
    beyond, empty = partitions(fetch(lab, "t", "u", offset=7, min_bytes=1_000))
    assert beyond.error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert (beyond.high_watermark, beyond.log_start_offset) == (-1, -1)
    assert empty.error_code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_unknown_topic_does_not_complete_a_fetch() -> None:
    """As in Kafka 4.1: a consumer of other topics besides would retry in a busy loop."""
    lab = ready("t")
    sent = fetch(lab, "t", "gone")
    assert not sent.is_answered
    lab.pass_time(500)
    assert [each.error_code for each in partitions(sent)] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_incremental_fetch_returns_only_changed_partitions() -> None:
    """FT-5, FT-6."""
    lab = ready("t", "u")
    first = fetch(lab, "t", "u", session=(0, 0), max_wait_ms=0).answer(FetchResponse)
    assert first.session_id > 0
    assert [each.topic for each in first.responses] == ["t", "u"]
    sent = fetch(lab, session=(first.session_id, 1))
    assert not sent.is_answered
    lab.produce("u", b"1")
    news = sent.answer(FetchResponse)
    assert news.session_id == first.session_id
    assert [each.topic for each in news.responses] == ["u"]
    again = fetch(lab, session=(first.session_id, 1)).answer(FetchResponse)
    assert again == FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    unknown = fetch(lab, session=(first.session_id + 1, 1)).answer(FetchResponse)
    assert unknown == FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def test_failed_disk_is_an_error_of_its_own_partitions_only() -> None:
    """RC-5: the other log directory stays online."""
    lab = BrokerLab(paths=(DATA, PurePath("/more")))
    for topic in ("t", "u"):
        lab.create(topic)
        lab.produce(topic, topic.encode())
    lab.disk.fail_next_read("t-0/*.log")
    bad, good = partitions(fetch(lab, "t", "u"))
    assert bad.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert values(good) == [b"u"]
