"""Fetch: at once, or when there is something, or when its time is over."""

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
    """All that holds for a fetch of a few partitions holds for one of many."""
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
    """What the records say; of several batches too."""
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


def test_what_is_there_is_sent_at_once() -> None:
    lab = ready("t")
    lab.produce("t", b"1", b"2")
    sent = fetch(lab, "t")
    (found,) = partitions(sent)
    assert values(found) == [b"1", b"2"]
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (2, 2, 0)
    assert len(lab.broker.timer) == 0


def test_a_fetch_that_finds_nothing_waits_and_leaves_its_connection_free() -> None:
    """FT-3: Produce and Fetch of one connection may overlap."""
    lab = ready("t")
    sent = fetch(lab, "t")
    assert not sent.is_answered
    assert not sent.is_held
    lab.produce("t", b"1")
    assert [values(each) for each in partitions(sent)] == [[b"1"]]
    assert len(lab.broker.timer) == 0


def test_a_fetch_waits_for_as_many_bytes_as_it_asked_for() -> None:
    lab = ready("t", "u")
    sent = fetch(lab, "t", "u", min_bytes=150)
    lab.produce("t", b"x" * 50)
    assert not sent.is_answered
    lab.produce("u", b"y" * 50)
    assert [values(each) for each in partitions(sent)] == [[b"x" * 50], [b"y" * 50]]


def test_a_fetch_whose_time_is_over_is_answered_with_what_there_is() -> None:
    lab = ready("t")
    sent = fetch(lab, "t", min_bytes=1_000, max_wait_ms=500)
    lab.produce("t", b"1")
    lab.pass_time(499)
    assert not sent.is_answered
    lab.pass_time(1)
    assert [values(each) for each in partitions(sent)] == [[b"1"]]
    assert len(lab.broker.timer) == 0


def test_a_fetch_that_may_not_wait_is_answered_with_nothing() -> None:
    lab = ready("t")
    (found,) = partitions(fetch(lab, "t", max_wait_ms=0))
    assert (found.error_code, values(found), found.high_watermark) == (ErrorCode.NONE, [], 0)


def test_a_fetch_that_waits_for_a_deleted_topic_hears_of_it() -> None:
    lab = ready("t")
    sent = fetch(lab, "t")
    gone = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=1_000)
    lab.ask(gone, DeleteTopicsResponse)
    assert [each.error_code for each in partitions(sent)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_fetch_of_a_peer_that_is_gone_waits_no_longer_than_the_next_record() -> None:
    lab = ready("t")
    sent = fetch(lab, "t")
    sent.peer.close()
    lab.produce("t", b"1")
    assert sent.was_silent
    assert len(lab.broker.timer) == 0
    assert not any(each.readers for each in lab.broker.partitions)


def test_an_offset_that_is_nowhere_is_told_at_once() -> None:
    """FT-12."""
    lab = ready("t", "u")
    lab.produce("t", b"1")
    beyond, empty = partitions(fetch(lab, "t", "u", offset=7, min_bytes=1_000))
    assert beyond.error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert (beyond.high_watermark, beyond.log_start_offset) == (-1, -1)
    assert empty.error_code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_topic_that_is_not_there_does_not_hurry_a_fetch() -> None:
    """Kafka 4.1 does this: a consumer of others besides would ask again and again."""
    lab = ready("t")
    sent = fetch(lab, "t", "gone")
    assert not sent.is_answered
    lab.pass_time(500)
    assert [each.error_code for each in partitions(sent)] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_a_session_tells_only_what_is_new() -> None:
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


def test_a_disk_that_fails_is_an_error_of_its_own_partitions_alone() -> None:
    """RC-5: the other log directory goes on."""
    lab = BrokerLab(paths=(DATA, PurePath("/more")))
    for topic in ("t", "u"):
        lab.create(topic)
        lab.produce(topic, topic.encode())
    lab.disk.fail_next_read("t-0/*.log")
    bad, good = partitions(fetch(lab, "t", "u"))
    assert bad.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert values(good) == [b"u"]
