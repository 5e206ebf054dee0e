"""Transactions from start to end: accepted and rejected requests, and the resulting logs.

Between two steps both brokers become idle, because responses while markers are written are not
deterministic.
"""

from dataclasses import dataclass, replace

from headwater.common.error_codes import ErrorCode
from headwater.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from headwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headwater.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headwater.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from headwater.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headwater.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from headwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from headwater.protocol.messages.list_transactions import ListTransactionsRequest
from headwater.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from headwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from headwater.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headwater.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from headwater.records.batch_building import build_batch
from tests.peers.lab import LATEST, Lab
from tests.peers.scenarios.produce import BY_NAME, fetch_all, produce

OLD, ABORTABLE, NEW = 10, 11, 12
"""Versions of Produce: without TRANSACTION_ABORTABLE, with it, and for transactions version 2."""

_GROUP, _TRANSACTION = 0, 1
_NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


@dataclass(slots=True)
class _Producer:
    """A producer with a transactional id, driven request by request."""

    lab: Lab
    name: str
    producer_id: int = -1
    epoch: int = -1

    def begin(self) -> None:
        """Send InitProducerId."""
        _find(self.lab, self.name, _TRANSACTION)
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        answer = self.lab.until(
            request, InitProducerIdResponse, lambda each: each.error_code not in _NOT_READY
        )
        assert answer.error_code is ErrorCode.NONE, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def add(self, *partitions: tuple[str, int]) -> AddPartitionsToTxnRequest:
        numbers: dict[str, list[int]] = {}
        for topic, number in partitions:
            numbers.setdefault(topic, []).append(number)
        topics = tuple(
            AddPartitionsToTxnTopic(name=topic, partitions=tuple(of_topic))
            for topic, of_topic in numbers.items()
        )
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=topics,
        )
        return AddPartitionsToTxnRequest(transactions=(transaction,))

    def batch(self, *values: str, sequence: int, epoch: int | None = None) -> bytes:
        return build_batch(
            self.lab.records(*values),
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
            is_transactional=True,
        )

    def send(
        self,
        topic: str,
        *values: str,
        sequence: int,
        partition: int = 0,
        epoch: int | None = None,
    ) -> ProduceRequest:
        batch = self.batch(*values, sequence=sequence, epoch=epoch)
        return produce(topic, batch, partition=partition, transactional_id=self.name)

    def ending(self, *, committed: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )

    def end(self, label: str, *, committed: bool, version: int) -> None:
        answer = self.lab.ask(label, self.ending(committed=committed), EndTxnResponse, version)
        if answer.error_code is ErrorCode.NONE and version >= 5:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.settle()

    def settle(self) -> None:
        """Wait until all markers are written."""
        self.lab.until(
            DescribeTransactionsRequest(transactional_ids=(self.name,)),
            DescribeTransactionsResponse,
            lambda answer: "Prepare" not in answer.transaction_states[0].transaction_state,
        )

    def commit_offsets(
        self, group: str, *topics: TxnOffsetCommitRequestTopic
    ) -> TxnOffsetCommitRequest:
        return TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=topics,
        )


def life_of_version_1(lab: Lab) -> None:
    topic, producer = lab.topic(partitions=2), _Producer(lab, lab.named("id"))
    producer.begin()
    lab.show("nothing to end", producer.ending(committed=True), 3)
    for version in (OLD, ABORTABLE):
        label = f"not in the transaction, {version}"
        lab.show(label, producer.send(topic, "a", sequence=0), version)
    sequence = 0
    for committed in (True, False, True):
        lab.show(f"add {sequence}", producer.add((topic, 0)), 3)
        for number in range(2):
            request = producer.send(topic, "a", "b", sequence=sequence)
            lab.show(f"batch {number} of {sequence}", request, OLD)
            lab.show(f"repeated {number} of {sequence}", request, OLD)
            sequence += 2
        lab.show(
            f"other partition of {sequence}",
            producer.send(topic, "a", sequence=0, partition=1),
            OLD,
        )
        _show_log(lab, f"open at {sequence}", topic)
        producer.end(f"end {sequence}", committed=committed, version=4)
        _show_log(lab, f"ended at {sequence}", topic)
    lab.show("repeated end", producer.ending(committed=True), 4)
    lab.show("another end", producer.ending(committed=False), 4)


def life_of_version_2(lab: Lab) -> None:
    topic, producer = lab.topic(partitions=2), _Producer(lab, lab.named("id"))
    producer.begin()
    lab.show("not at the beginning", producer.send(topic, "a", sequence=5), NEW)
    for committed in (True, False, True):
        epoch = producer.epoch
        for number in range(2):
            request = producer.send(topic, "a", "b", sequence=2 * number)
            lab.show(f"batch {number} of {epoch}", request, NEW)
            lab.show(f"repeated {number} of {epoch}", request, NEW)
        lab.show(
            f"other partition of {epoch}", producer.send(topic, "c", sequence=0, partition=1), NEW
        )
        _show_log(lab, f"open in {epoch}", topic)
        before = replace(producer)
        producer.end(f"end {epoch}", committed=committed, version=5)
        _show_log(lab, f"ended in {epoch}", topic)
        lab.show(f"repeated end of {epoch}", before.ending(committed=committed), 5)
        lab.show(f"late batch of {epoch}", before.send(topic, "z", sequence=4), NEW)
    lab.show("a batch outside of a transaction", _plain_batch(producer, topic), NEW)


def fenced_producers(lab: Lab) -> None:
    topic, zombie = lab.topic(), _Producer(lab, lab.named("id"))
    zombie.begin()
    lab.show("before", zombie.send(topic, "a", sequence=0), NEW)
    successor = replace(zombie)
    successor.begin()
    for version in (OLD, ABORTABLE, NEW):
        lab.show(f"fenced batch, {version}", zombie.send(topic, "b", sequence=1), version)
        lab.show(f"fenced first batch, {version}", zombie.send(topic, "b", sequence=0), version)
    ahead = successor.send(topic, "b", sequence=0, epoch=successor.epoch + 1)
    for version in (OLD, NEW):
        lab.show(f"an epoch from the future, {version}", ahead, version)
    for version in (1, 3):
        lab.show(f"fenced add, {version}", zombie.add((topic, 0)), version)
        lab.show(f"fenced end, {version}", zombie.ending(committed=True), version)
    lab.show("successor", successor.send(topic, "c", sequence=0), NEW)
    successor.end("end", committed=True, version=5)
    _show_log(lab, "the log", topic)


def partitions_that_cannot_be_added(lab: Lab) -> None:
    topic, producer = lab.topic(partitions=2), _Producer(lab, lab.named("id"))
    producer.begin()
    for version in (0, 3):
        lab.show(f"unknown partition, {version}", producer.add((topic, 1), (topic, 9)), version)
        lab.show(f"unknown topic, {version}", producer.add((lab.named("none"), 0)), version)
        lab.show(f"internal topic, {version}", producer.add(("__consumer_offsets", 0)), version)
    lab.show("unknown partition, from a leader", producer.add((topic, 1), (topic, 9)), 5)
    lab.show("no transactional id", _named(producer, "").add((topic, 0)), 3)
    lab.show("unknown transactional id", _named(producer, lab.named("no")).add((topic, 0)), 3)
    two = AddPartitionsToTxnRequest(
        transactions=(
            *producer.add((topic, 0)).transactions,
            *_named(producer, lab.named("no")).add((topic, 0)).transactions,
        )
    )
    lab.show("two transactions", two, 5, unordered=True)
    lab.show("what it has now", _describing(producer), 0)


def batches_that_are_no_transaction(lab: Lab) -> None:
    topic, producer = lab.topic(), _Producer(lab, lab.named("id"))
    producer.begin()
    lab.show("an unknown id", _named(producer, lab.named("no")).send(topic, "a", sequence=0), NEW)
    lab.show("an empty id", _named(producer, "").send(topic, "a", sequence=0), NEW)
    without = produce(topic, producer.batch("a", sequence=0))
    lab.show("no id", without, NEW)
    other = replace(producer, producer_id=lab.producer_id())
    lab.show("the id of another", other.send(topic, "a", sequence=0), NEW)
    lab.show("a plain batch under an id", _plain_batch(producer, topic), NEW)


def two_producers_in_one_request(lab: Lab) -> None:
    topic, one, two = (
        lab.topic(partitions=2),
        *(_Producer(lab, lab.named(name)) for name in ("one", "two")),
    )
    one.begin()
    two.begin()
    data = tuple(
        PartitionProduceData(index=number, records=memoryview(each.batch("a", sequence=0)))
        for number, each in enumerate((one, two))
    )
    request = ProduceRequest(
        transactional_id=one.name,
        acks=-1,
        timeout_ms=10_000,
        topic_data=(TopicProduceData(name=topic, partition_data=data),),
    )
    lab.show("two producers", request, NEW)


def offsets_in_a_transaction(lab: Lab) -> None:
    topic, producer, group = lab.topic(), _Producer(lab, lab.named("id")), lab.named("group")
    producer.begin()
    _find_group(lab, group, topic)
    places = _offsets(topic, 0, 5)
    for version in (3, 4):
        lab.show(
            f"not in the transaction, {version}", producer.commit_offsets(group, places), version
        )
    for committed in (True, False):
        added = AddOffsetsToTxnRequest(
            transactional_id=producer.name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=group,
        )
        lab.until(added, AddOffsetsToTxnResponse, lambda each: each.error_code not in _NOT_READY, 4)
        request = producer.commit_offsets(group, _offsets(topic, 0, 7 if committed else 9))
        lab.show(f"in the transaction, {committed}", request, 4)
        _show_offsets(lab, f"pending, {committed}", group, topic)
        producer.end(f"end, {committed}", committed=committed, version=4)
        _show_offsets(lab, f"ended, {committed}", group, topic)
    unknown = producer.commit_offsets(group, _offsets(topic, 4, 1), _offsets(lab.named("no"), 0, 1))
    lab.show("unknown places", unknown, 4, unordered=True)
    lab.show("no group", producer.commit_offsets("", places), 4)
    member = replace(producer.commit_offsets(group, places), generation_id=3, member_id="m")
    lab.show("a member that is none", member, 5)


def offsets_of_version_2(lab: Lab) -> None:
    topic, producer, group = lab.topic(), _Producer(lab, lab.named("id")), lab.named("group")
    producer.begin()
    _find_group(lab, group, topic)
    for committed in (True, False):
        request = producer.commit_offsets(group, _offsets(topic, 0, 7 if committed else 9))
        lab.show(f"added by the way, {committed}", request, 5)
        lab.show(f"again, {committed}", request, 5)
        _show_offsets(lab, f"pending, {committed}", group, topic)
        before = replace(producer)
        producer.end(f"end, {committed}", committed=committed, version=5)
        _show_offsets(lab, f"ended, {committed}", group, topic)
        for version in (3, 4, 5):
            late = before.commit_offsets(group, _offsets(topic, 0, 1))
            lab.show(f"late, {committed}, {version}", late, version)


def markers_by_hand(lab: Lab) -> None:
    """As a tool aborts a hanging transaction (KIP-664)."""
    topic, producer = lab.topic(partitions=2), _Producer(lab, lab.named("id"))
    producer.begin()
    # Once more, for an epoch that has one before it.
    producer.begin()
    lab.get(producer.send(topic, "a", sequence=0), ProduceResponse, NEW)
    lab.show("who writes", _producers(topic), 0)
    lab.show("an old epoch", _marker(producer, topic, epoch=producer.epoch - 1), 1)
    lab.show("abort", _marker(producer, topic), 1)
    lab.show("abort again", _marker(producer, topic), 1)
    lab.show("an old coordinator", _marker(producer, topic, coordinator_epoch=-1), 1)
    lab.show("unknown partition", _marker(producer, topic, partition=7), 1)
    lab.show("unknown topic", _marker(producer, lab.named("none")), 1)
    lab.show("no markers", WriteTxnMarkersRequest(), 1)
    lab.show("where nothing was written", _marker(producer, topic, partition=1), 1)
    lab.show("who writes then", _producers(topic), 0)
    _show_log(lab, "the log", topic)
    _show_log(lab, "the other log", topic, partition=1)


def what_tools_see(lab: Lab) -> None:
    topic, producer = lab.topic(partitions=2), _Producer(lab, lab.named("id"))
    producer.begin()
    lab.show("empty", _describing(producer), 0)
    lab.get(producer.send(topic, "a", sequence=0), ProduceResponse, NEW)
    lab.show("ongoing", _describing(producer), 0)
    lab.show("its producers", _producers(topic), 0)
    pattern = ListTransactionsRequest(
        state_filters=("Ongoing", "Sleeping"), transactional_id_pattern=f"{lab.name}.*"
    )
    lab.show("in a list", pattern, 2)
    lab.show("by a pattern that is none", replace(pattern, transactional_id_pattern="(("), 2)
    ids = DescribeTransactionsRequest(transactional_ids=(lab.named("no"), ""))
    lab.show("unknown", ids, 0)
    producer.end("end", committed=True, version=5)
    lab.show("complete", _describing(producer), 0)


def _find(lab: Lab, key: str, key_type: int) -> None:
    """The first FindCoordinator creates the topic, and may have to wait for it."""
    lab.until(
        FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,)),
        FindCoordinatorResponse,
        lambda answer: answer.coordinators[0].error_code is ErrorCode.NONE,
    )


def _find_group(lab: Lab, group: str, topic: str) -> None:
    _find(lab, group, _GROUP)
    lab.until(
        _fetching(group, topic, stable=True),
        OffsetFetchResponse,
        lambda answer: answer.groups[0].error_code not in _NOT_READY,
        9,
    )


def _named(producer: _Producer, name: str) -> _Producer:
    return replace(producer, name=name)


def _plain_batch(producer: _Producer, topic: str) -> ProduceRequest:
    batch = build_batch(
        producer.lab.records("plain"),
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
    )
    return produce(topic, batch, transactional_id=producer.name)


def _describing(producer: _Producer) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest(transactional_ids=(producer.name,))


def _producers(topic: str) -> DescribeProducersRequest:
    return DescribeProducersRequest(topics=(TopicRequest(name=topic, partition_indexes=(0,)),))


def _offsets(topic: str, partition: int, offset: int) -> TxnOffsetCommitRequestTopic:
    place = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
    return TxnOffsetCommitRequestTopic(name=topic, partitions=(place,))


def _marker(
    producer: _Producer,
    topic: str,
    *,
    partition: int = 0,
    epoch: int | None = None,
    coordinator_epoch: int = 0,
) -> WriteTxnMarkersRequest:
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch if epoch is None else epoch,
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name=topic, partition_indexes=(partition,)),),
        coordinator_epoch=coordinator_epoch,
    )
    return WriteTxnMarkersRequest(markers=(marker,))


def _show_log(lab: Lab, label: str, topic: str, partition: int = 0) -> None:
    """What a read_committed consumer gets, and where it stops."""
    request = replace(fetch_all(topic, partition=partition), isolation_level=1)
    lab.show(f"{label}, committed", request, BY_NAME)
    lab.show(f"{label}, everything", fetch_all(topic, partition=partition), BY_NAME)
    place = ListOffsetsPartition(partition_index=partition, timestamp=LATEST)
    asked = ListOffsetsTopic(name=topic, partitions=(place,))
    end = ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=(asked,))
    lab.show(f"{label}, stable end", end)


def _show_offsets(lab: Lab, label: str, group: str, topic: str) -> None:
    for stable in (True, False):
        request = _fetching(group, topic, stable=stable)
        lab.show(f"{label}, {'stable' if stable else 'as it is'}", request, 9)


def _fetching(group: str, topic: str, *, stable: bool) -> OffsetFetchRequest:
    asked = OffsetFetchRequestGroup(
        group_id=group, topics=(OffsetFetchRequestTopics(name=topic, partition_indexes=(0,)),)
    )
    return OffsetFetchRequest(groups=(asked,), require_stable=stable)
