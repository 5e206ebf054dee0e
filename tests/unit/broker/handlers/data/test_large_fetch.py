"""A fetch of many partitions is answered in steps, between which others are served."""

import random
from collections.abc import Callable
from pathlib import PurePath

import pytest

from headwater.broker.handlers.data.fetch_response import STEP_PARTITIONS, PendingFetchResponse
from headwater.broker.requests.call import Call
from headwater.broker.requests.request_counters import RequestCounters
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.principal import Requester
from headwater.network.request_service import ResponseSlot
from headwater.protocol.api_key import ApiKey
from headwater.protocol.api_table import APIS
from headwater.protocol.headers import RequestHeader
from headwater.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headwater.records.batch_header import Buffer
from headwater.replication.fetch.fetch_session import CachedPartition, FetchContext
from headwater.replication.fetch.log_reads import PartitionRead
from headwater.security.authorization.authorizer import Operation, Resource
from headwater.storage.io.file_range import FileRange
from headwater.storage.io.open_files import OpenFiles
from tests.simulation.fakes.lossy_disk import LossyDisk
from tests.simulation.labs.broker_lab import BrokerLab, Peer, Refusing, Sent

VERSION = 12
COUNT = 1_000


class Counting(Refusing):
    """Counts authorizations per topic: one for each partition of a fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def authorize(self, requester: Requester, operation: Operation, resource: Resource) -> bool:
        self.count += operation is Operation.READ
        return super().authorize(requester, operation, resource)

    allows = authorize


def request(
    topics: dict[str, int], *, max_wait_ms: int = 0, session: tuple[int, int] = (0, -1)
) -> FetchRequest:
    """Fetch all partitions of these topics, which have so many."""
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=tuple(
            FetchTopic(
                topic=name,
                partitions=tuple(
                    FetchPartition(partition=number, partition_max_bytes=1 << 20)
                    for number in range(count)
                ),
            )
            for name, count in topics.items()
        ),
    )


def most_in_a_step(lab: BrokerLab, authorizer: Counting, sent: Sent) -> int:
    """Run all steps; return the most partitions that one step examined."""
    peer, most = sent.peer, 0
    while not sent.is_answered:
        before = authorizer.count
        steps = peer.steps
        assert next(steps, None) is None
        most = max(most, authorizer.count - before)
        # Others are served at any time.
        assert lab.produce("other", b"x") >= 0
    return most


@pytest.mark.parametrize("topics", [{"bench": COUNT}, {f"n{number}": 1 for number in range(COUNT)}])
def test_no_step_examines_more_than_a_few_partitions(topics: dict[str, int]) -> None:
    authorizer = Counting()
    lab = BrokerLab(authorizer=authorizer)
    lab.create("bench", 3)
    lab.create("other")
    lab.produce("bench", b"1", partition=2)
    peer = Peer()
    peer.takes_steps = False
    sent = lab.send(request(topics), VERSION, peer)
    assert 0 < most_in_a_step(lab, authorizer, sent) <= STEP_PARTITIONS
    answer = sent.answer(FetchResponse)
    assert {each.topic: len(each.partitions) for each in answer.responses} == topics
    small = BrokerLab()
    small.create("bench", 3)
    small.produce("bench", b"1", partition=2)
    expected = small.send(request({"bench": 150}), VERSION).answer(FetchResponse)
    if "bench" in topics:
        assert answer.responses[0].partitions[:150] == expected.responses[0].partitions


def test_small_request_of_a_large_session_is_answered_in_steps() -> None:
    """The request has a few bytes, so its size does not tell."""
    authorizer = Counting()
    lab = BrokerLab(authorizer=authorizer)
    lab.create("bench", COUNT)
    lab.create("other")
    first = lab.ask(request({"bench": COUNT}, session=(0, 0)), FetchResponse, VERSION)
    assert first.session_id > 0
    lab.produce("bench", b"1", partition=7)
    peer = Peer()
    peer.takes_steps = False
    incremental = request({}, session=(first.session_id, 1))
    sent = lab.send(incremental, VERSION, peer)
    assert sent.is_held
    assert 0 < most_in_a_step(lab, authorizer, sent) <= STEP_PARTITIONS
    ((partition,),) = (each.partitions for each in sent.answer(FetchResponse).responses)
    assert (partition.partition_index, partition.high_watermark) == (7, 1)


def test_large_fetch_waits_and_reads_again_in_steps() -> None:
    authorizer = Counting()
    lab = BrokerLab(authorizer=authorizer)
    lab.create("bench", COUNT)
    lab.create("other")
    peer = Peer()
    peer.takes_steps = False
    sent = lab.send(request({"bench": COUNT}, max_wait_ms=500), VERSION, peer)
    while len(lab.broker.timer) == 0:
        assert next(peer.steps, None) is None
    assert not sent.is_answered
    lab.produce("bench", b"1", partition=7)
    lab.turn()
    assert len(lab.broker.timer) == 0
    assert most_in_a_step(lab, authorizer, sent) <= STEP_PARTITIONS
    (topic,) = sent.answer(FetchResponse).responses
    assert [each.partition_index for each in topic.partitions if each.high_watermark] == [7]
    assert not any(each.readers for each in lab.broker.partitions)


@pytest.mark.parametrize("steps", [1, 4, 20])
def test_what_comes_while_a_large_fetch_looks_is_not_missed(steps: int) -> None:
    lab = BrokerLab()
    lab.create("bench", COUNT)
    lab.create("other")
    peer = Peer()
    first = lab.ask(request({"bench": COUNT}, session=(0, 0)), FetchResponse, VERSION)
    peer.takes_steps = False
    incremental = request({}, max_wait_ms=500, session=(first.session_id, 1))
    sent = lab.send(incremental, VERSION, peer)
    for _ in range(steps):
        assert next(peer.steps, None) is None
    # It has looked there already.
    lab.produce("bench", b"1", partition=7)
    for _ in range(1_000):
        next(peer.steps, None)
    ((partition,),) = (each.partitions for each in sent.answer(FetchResponse).responses)
    assert (partition.partition_index, partition.high_watermark) == (7, 1)
    assert len(lab.broker.timer) == 0
    assert not any(each.readers for each in lab.broker.partitions)


def test_a_large_fetch_whose_connection_is_gone_leaves_nothing_behind() -> None:
    lab = BrokerLab()
    lab.create("bench", COUNT)
    peer = Peer()
    peer.takes_steps = False
    lab.send(request({"bench": COUNT}, max_wait_ms=500), VERSION, peer)
    while not any(each.readers for each in lab.broker.partitions):
        assert next(peer.steps, None) is None
    peer.is_closed = True
    peer.steps = iter(())
    assert not any(each.readers for each in lab.broker.partitions)
    assert len(lab.broker.timer) == 0


class HotRanges:
    """`FileRangeReader` with everything in the page cache."""

    answer_limit_bytes = 1_000

    def is_hot(self, range: FileRange) -> bool:  # noqa: A002, ARG002, the word of the room
        return True

    def read(
        self,
        range: FileRange,  # noqa: A002, the word of the room
        deliver: Callable[[FileRange | Buffer], None],
        fail: Callable[[HeadwaterError], None],  # noqa: ARG002
        **_: object,
    ) -> bool:
        range.file.hold()
        deliver(range)
        return True


@pytest.mark.parametrize("steps", range(4))
def test_ranges_are_released_when_the_connection_closes_before_the_response(steps: int) -> None:
    disk = LossyDisk(random.Random(1))
    path = PurePath("/data")
    disk.make_directory(path)
    file = OpenFiles(disk, 10).open(path / "log", create=True)
    peer = Peer()
    peer.takes_steps = False
    header = RequestHeader(APIS[ApiKey.FETCH], VERSION, 1, "lab", 0)
    call = Call(header, ResponseSlot(peer), RequestCounters(VERSION), 0)
    wanted = CachedPartition("t", None, FetchPartition())
    read = PartitionRead(wanted, ErrorCode.NONE, range=FileRange(file, 0, 10))
    response = PendingFetchResponse(call, FetchContext([wanted] * 100), [])
    response.add([read] * 100, HotRanges())  # type: ignore[arg-type]
    assert file.is_held
    response.finish()
    for _ in range(steps):
        next(peer.steps)
    assert file.is_held
    peer.is_closed = True
    peer.steps = iter(())
    assert not file.is_held
