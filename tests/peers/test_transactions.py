"""The transaction coordinator compared with Apache Kafka's: the same requests, the same responses.

Producer ids are generated, so they are compared by the order in which they appear. Between two
steps both systems become idle, because responses while markers are written are not deterministic.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from headwater.common.error_codes import ErrorCode
from headwater.protocol.codec import read, response_class, write
from headwater.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from headwater.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from headwater.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headwater.protocol.messages.find_coordinator import FindCoordinatorRequest
from headwater.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headwater.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from headwater.protocol.older_versions import Message
from headwater.protocol.send_parts import Part
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.raw_client import RawClient
from tests.simulation.labs.hosted_transactions import HostedTransactions
from tests.simulation.labs.transaction_lab import A0, A1, TX, adding, end, init

Ask = Callable[[Message, int], Message]
V1, V2 = 4, 5
_POLLS = 20_000
_NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


class Side:
    """One of the two systems, with its responses."""

    def __init__(self, ask: Ask, settle: Callable[[], None]) -> None:
        self._ask = ask
        self._settle = settle
        self._ids: dict[int, int] = {-1: -1}
        self.answers: list[Message] = []
        self.producer_id = self.epoch = -1

    def say(self, request: Message, version: int) -> Message:
        answer = self._ask(request, version)
        self._settle()
        self.answers.append(self._compared(answer))
        return answer

    def initialise(self, *, goes_on: bool = False) -> None:
        request = init(self.producer_id, self.epoch) if goes_on else init()
        answer = self.say(request, 5)
        assert isinstance(answer, InitProducerIdResponse)
        if answer.error_code is ErrorCode.CONCURRENT_TRANSACTIONS:
            answer = self.say(request, 5)
            assert isinstance(answer, InitProducerIdResponse)
        if answer.error_code is ErrorCode.NONE:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def end(self, *, committed: bool, version: int, older: int = 0) -> None:
        answer = self.say(end(self.producer_id, self.epoch - older, committed=committed), version)
        assert isinstance(answer, EndTxnResponse)
        if version == V2 and answer.error_code is ErrorCode.NONE:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def _compared(self, answer: Message) -> Message:
        """Without generated values and times."""
        if isinstance(answer, InitProducerIdResponse | EndTxnResponse):
            return replace(answer, producer_id=self._place(answer.producer_id))
        if isinstance(answer, DescribeTransactionsResponse):
            states = tuple(
                replace(
                    each,
                    producer_id=self._place(each.producer_id),
                    transaction_start_time_ms=min(each.transaction_start_time_ms, 0),
                    topics=tuple(
                        replace(topic, partitions=tuple(sorted(topic.partitions)))
                        for topic in each.topics
                    ),
                )
                for each in answer.transaction_states
            )
            return replace(answer, transaction_states=states)
        if isinstance(answer, ListTransactionsResponse):
            listed = tuple(
                replace(each, producer_id=self._place(each.producer_id))
                for each in answer.transaction_states
            )
            return replace(answer, transaction_states=listed)
        if isinstance(answer, AddPartitionsToTxnResponse):
            return _in_order(answer)
        return answer

    def _place(self, producer_id: int) -> int:
        return self._ids.setdefault(producer_id, len(self._ids))


def lifecycle_of_version_1(side: Side) -> None:
    side.say(adding(1, 0, A0), 3)
    side.say(end(1, 0, committed=True), V1)
    side.initialise()
    side.end(committed=True, version=V1)
    side.end(committed=False, version=V1)
    for committed in (True, False):
        side.say(adding(side.producer_id, side.epoch, A0, A1), 3)
        side.say(adding(side.producer_id, side.epoch, A0), 3)
        side.say(describing(), 0)
        side.end(committed=committed, version=V1)
        side.say(describing(), 0)
        side.end(committed=committed, version=V1)
        side.end(committed=not committed, version=V1)


def lifecycle_of_version_2(side: Side) -> None:
    side.initialise()
    side.end(committed=True, version=V2)
    side.end(committed=False, version=V2)
    side.end(committed=False, version=V2)
    for committed in (True, False):
        side.say(adding(side.producer_id, side.epoch, A0), V2)
        side.end(committed=committed, version=V2)
        side.say(describing(), 0)
        # A repeat, and one with the other result.
        side.end(committed=committed, version=V2, older=1)
        side.end(committed=not committed, version=V2, older=1)
        side.end(committed=True, version=V2)
        side.end(committed=True, version=V2, older=2)
    side.end(committed=False, version=V2)


def fencing(side: Side) -> None:
    side.initialise()
    old_id, old_epoch = side.producer_id, side.epoch
    side.initialise(goes_on=True)
    side.say(init(old_id, old_epoch), 5)
    side.say(adding(side.producer_id, side.epoch, A0), 3)
    # Fenced while it writes, and told to come again.
    side.say(init(), 5)
    side.say(describing(), 0)
    side.say(init(old_id, old_epoch), 5)
    side.initialise()
    side.say(init(old_id, old_epoch), 3)
    side.say(init(old_id + 1, old_epoch), 5)
    for version in (0, 1, 2, 3):
        side.say(adding(old_id, old_epoch, A0), version)
        side.say(end(old_id, old_epoch, committed=True), version)
        side.say(offsets(old_id, old_epoch), version)
    side.say(end(old_id, old_epoch, committed=True), V2)


def a_claim_after_being_fenced(side: Side) -> None:
    side.initialise()
    side.say(adding(side.producer_id, side.epoch, A0), V2)
    side.say(init(), 5)
    # The fenced one goes on before the other has come again.
    side.initialise(goes_on=True)
    side.say(describing(), 0)


def verification(side: Side) -> None:
    side.initialise()
    producer_id, epoch = side.producer_id, side.epoch
    side.say(adding(producer_id, epoch, A0, verify_only=True), 4)
    side.say(adding(producer_id, epoch, A0), 3)
    side.say(adding(producer_id, epoch, A0, A1, verify_only=True), 4)
    side.say(adding(producer_id, epoch + 1, A0, verify_only=True), 4)
    side.say(adding(producer_id + 1, epoch, A0, verify_only=True), 4)


def what_tools_see(side: Side) -> None:
    side.say(describing("unknown", ""), 0)
    side.initialise()
    side.say(adding(side.producer_id, side.epoch, A0, A1), V2)
    side.say(describing(), 0)
    for request in (
        ListTransactionsRequest(),
        ListTransactionsRequest(state_filters=("Empty",)),
        ListTransactionsRequest(state_filters=("Ongoing", "ongoing", "Dead")),
        ListTransactionsRequest(producer_id_filters=(side.producer_id,)),
        ListTransactionsRequest(duration_filter=3_600_000),
        ListTransactionsRequest(transactional_id_pattern="p.y"),
        ListTransactionsRequest(transactional_id_pattern="p"),
        ListTransactionsRequest(transactional_id_pattern=""),
        ListTransactionsRequest(transactional_id_pattern="(("),
    ):
        side.say(request, 2)


def bad_requests(side: Side) -> None:
    side.say(init(timeout_ms=0), 5)
    side.say(init(timeout_ms=900_001), 5)
    side.say(init(5, -1), 5)
    side.say(init(-1, 5), 5)
    side.say(InitProducerIdRequest(transactional_id="", transaction_timeout_ms=5), 5)
    for version in (V1, V2):
        side.say(EndTxnRequest(transactional_id="", producer_id=1, producer_epoch=0), version)


def _in_order(answer: AddPartitionsToTxnResponse) -> AddPartitionsToTxnResponse:
    """Sort: Kafka lists each topic once, Headwater in the order of the request."""
    results = []
    for result in answer.results_by_transaction:
        each = [
            AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=(partition,))
            for topic in result.topic_results
            for partition in topic.results_by_partition
        ]
        each.sort(key=lambda topic: (topic.name, topic.results_by_partition[0].partition_index))
        results.append(replace(result, topic_results=tuple(each)))
    return replace(answer, results_by_transaction=tuple(results))


def describing(*ids: str) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest(transactional_ids=ids or (TX,))


def offsets(producer_id: int, epoch: int) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=TX, producer_id=producer_id, producer_epoch=epoch, group_id="g"
    )


SCENARIOS = (
    lifecycle_of_version_1,
    lifecycle_of_version_2,
    fencing,
    a_claim_after_being_fenced,
    verification,
    what_tools_see,
    bad_requests,
)


def kafkas_side(client: RawClient) -> Side:
    def settle() -> None:
        for _ in range(_POLLS):
            answer = client.ask(describing(), 0)
            assert isinstance(answer, DescribeTransactionsResponse)
            (known,) = answer.transaction_states
            if "Prepare" not in known.transaction_state and known.error_code not in _NOT_READY:
                return
        raise AssertionError("Kafka does not come to rest")

    topic = CreatableTopic(name="a", num_partitions=2, replication_factor=1)
    client.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 5)
    client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=(TX,)), 4)
    settle()
    # Kafka fetches a block of producer ids at the first request for one.
    request = InitProducerIdRequest(transactional_id=None)
    while getattr(client.ask(request, 5), "error_code", None) in _NOT_READY:
        pass
    return Side(client.ask, settle)


def our_side() -> Side:
    hosted = HostedTransactions()

    def ask(request: Message, version: int) -> Message:
        (answer,) = hosted.ask(request, version)
        assert not isinstance(answer, ErrorCode)
        # What a version cannot say is not compared.
        content = b"".join(_content(part) for part in write(answer, version))
        return read(response_class(request.api), version, memoryview(content))

    return Side(ask, hosted.answer_markers)


def _content(part: Part) -> bytes:
    assert isinstance(part, bytes | bytearray | memoryview)
    return bytes(part)


def test_coordinator_responses_are_those_of_kafka(tmp_path: Path) -> None:
    """TX-2 to TX-6, TX-13, TX-14."""
    different: list[str] = []
    with ApacheKafka(tmp_path) as kafka, RawClient(kafka.bootstrap_servers) as client:
        theirs, ours = kafkas_side(client), our_side()
        for scenario in SCENARIOS:
            scenario(theirs)
            scenario(ours)
            pairs = zip(ours.answers, theirs.answers, strict=True)
            different += [
                f"{scenario.__name__}, answer {number}:\n  ours   {our}\n  theirs {their}"
                for number, (our, their) in enumerate(pairs)
                if our != their
            ]
            theirs.answers.clear()
            ours.answers.clear()
    assert not different, "\n".join(different)
