"""Transactions on a whole broker: verification, markers, timeouts."""

import random

import pytest

from headwater.broker.coordinators.pending_verifications import VerifiedTransaction
from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import ProducerId
from headwater.coordinator.runtime.coordinator_effects import TransactionalProducer
from headwater.metadata.changes import ConfigsReplaced, TopicDeleted
from headwater.metadata.cluster_image import ConfigResource
from headwater.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from headwater.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from headwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headwater.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from headwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headwater.protocol.messages.fetch import FetchResponse
from headwater.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from headwater.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from headwater.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from headwater.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from headwater.protocol.messages.write_txn_markers import WriteTxnMarkersResponse
from headwater.replication.transaction_verification import VerificationGuard, VerificationRequest
from tests.simulation.fakes.held_executor import HeldExecutor
from tests.simulation.labs.broker_lab import BrokerLab, Sent
from tests.simulation.labs.transaction_client import (
    ABORTABLE,
    GROUPS,
    OLD,
    TIMEOUT_MS,
    LabProducer,
    codes,
    end_offset,
    fetching,
    find,
    results,
    stable_offset,
)

HOUR_MS = 3_600_000
SETTINGS = {
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
}


def made(*, executor: HeldExecutor | None = None, **settings: str) -> tuple[BrokerLab, LabProducer]:
    """A broker with a topic of two partitions, and a producer."""
    own = {name.replace("_", "."): value for name, value in settings.items()}
    lab = BrokerLab({**SETTINGS, **own}, executor=executor)
    lab.create("t", 2)
    producer = LabProducer(lab)
    assert producer.begin() is ErrorCode.NONE
    return lab, producer


def held() -> HeldExecutor:
    return HeldExecutor(random.Random(4))


def make_durable(lab: BrokerLab, topic: str) -> None:
    """From now on a topic's records are acknowledged after a flush, which the executor runs."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    lab.change(ConfigsReplaced(resource, {"flush.messages": "1"}))


def make_quick(lab: BrokerLab, topic: str) -> None:
    """Undo `make_durable`."""
    lab.change(ConfigsReplaced(ConfigResource(ResourceType.TOPIC, topic), {}))


def committed_offset(lab: BrokerLab, group: str) -> tuple[int, ErrorCode]:
    asked = OffsetFetchRequestGroup(
        group_id=group, topics=(OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)
    )
    request = OffsetFetchRequest(groups=(asked,), require_stable=True)
    (found,) = lab.ask(request, OffsetFetchResponse, 9).groups[0].topics[0].partitions
    return found.committed_offset, found.error_code


def commit_codes(sent: Sent) -> list[ErrorCode]:
    answer = sent.answer(TxnOffsetCommitResponse)
    return [each.error_code for topic in answer.topics for each in topic.partitions]


# Before a transaction is open in a partition.


@pytest.mark.parametrize(
    ("version", "code"),
    [(OLD, ErrorCode.INVALID_TXN_STATE), (ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_batch_unknown_to_its_coordinator_is_rejected(version: int, code: ErrorCode) -> None:
    """TX-13: no marker would ever be written for it."""
    lab, producer = made()
    assert producer.add("t", 1) == [ErrorCode.NONE]
    assert codes(producer.send("t", 0, version)) == [code]
    assert end_offset(lab, "t") == 0
    assert codes(producer.send("t", 0, version, partitions=(1,))) == [ErrorCode.NONE]


def test_batch_of_version_2_adds_its_partition() -> None:
    """TX-14."""
    lab, producer = made()
    assert codes(producer.send("t", 0, partitions=(0, 1))) == [ErrorCode.NONE, ErrorCode.NONE]
    assert codes(producer.send("t", 1)) == [ErrorCode.NONE]
    assert stable_offset(lab, "t") == 0
    assert producer.end() is ErrorCode.NONE
    assert (stable_offset(lab, "t"), stable_offset(lab, "t", 1)) == (3, 2)
    assert producer.state == "CompleteCommit"


def test_duplicate_is_answered_as_one_even_after_its_transaction() -> None:
    """IDP-2: no verification, and no new transaction."""
    _, producer = made()
    assert producer.add("t", 0) == [ErrorCode.NONE]
    (first,) = results(producer.send("t", 0, OLD))
    assert producer.end(version=4) is ErrorCode.NONE
    (again,) = results(producer.send("t", 0, OLD))
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, first.base_offset)


def test_verification_can_be_disabled() -> None:
    """transaction.partition.verification.enable; adding partitions is not verification."""
    lab, producer = made(transaction_partition_verification_enable="false")
    assert codes(producer.send("t", 0, OLD)) == [ErrorCode.NONE]
    other = LabProducer(lab, "other")
    other.begin()
    assert codes(other.send("t", 0)) == [ErrorCode.NONE]
    assert other.state == "Ongoing"


def test_batch_waits_for_its_coordinator() -> None:
    """The request's bytes are gone by then, so the batch is copied."""
    executor = held()
    lab, producer = made(executor=executor)
    make_durable(lab, TRANSACTION_STATE)
    sent = producer.send("t", 0)
    assert not sent.is_answered
    assert end_offset(lab, "t") == 0
    executor.finish()
    assert codes(sent) == [ErrorCode.NONE]
    assert end_offset(lab, "t") == 1


def test_marker_during_verification_makes_the_leader_verify_again() -> None:
    """TX-13: the transaction is still open at its coordinator, which will end it here too."""
    executor = held()
    lab, producer = made(executor=executor)
    make_durable(lab, TRANSACTION_STATE)
    sent = producer.send("t", 0)
    answer = lab.ask(producer.marker("t", 0), WriteTxnMarkersResponse)
    assert answer.markers[0].topics[0].partitions[0].error_code is ErrorCode.NONE
    executor.finish()
    assert codes(sent) == [ErrorCode.NONE]
    assert (stable_offset(lab, "t"), end_offset(lab, "t")) == (1, 2)
    make_quick(lab, TRANSACTION_STATE)
    assert producer.end() is ErrorCode.NONE
    assert stable_offset(lab, "t") == end_offset(lab, "t") == 3


@pytest.mark.parametrize(
    ("client_version", "code"),
    [(2, ErrorCode.INVALID_PRODUCER_EPOCH), (0, ErrorCode.NONE)],
)
def test_late_copy_of_another_brokers_marker_does_not_end_the_next_transaction(
    client_version: int, code: ErrorCode
) -> None:
    """TX-14: its epoch is that of the next transaction's batches. A tool may end a hanging one."""
    lab, producer = made()
    assert codes(producer.send("t", 0)) == [ErrorCode.NONE]
    assert producer.end() is ErrorCode.NONE
    assert codes(producer.send("t", 0)) == [ErrorCode.NONE]
    late = producer.marker("t", 0, client_version=client_version)
    answer = lab.ask(late, WriteTxnMarkersResponse)
    assert answer.markers[0].topics[0].partitions[0].error_code is code
    assert (stable_offset(lab, "t") < end_offset(lab, "t")) is (client_version == 2)


def test_following_batches_wait_in_order() -> None:
    executor = held()
    lab, producer = made(executor=executor)
    make_durable(lab, TRANSACTION_STATE)
    sent = [producer.send("t", sequence) for sequence in range(3)]
    executor.finish()
    assert [results(each)[0].base_offset for each in sent] == [0, 1, 2]
    assert end_offset(lab, "t") == 3


def test_batch_waits_behind_earlier_ones_even_if_its_transaction_is_open() -> None:
    """These may have been verified before it was opened, and still wait for their response."""
    executor = held()
    lab, producer = made(executor=executor)
    assert codes(producer.send("t", 0)) == [ErrorCode.NONE]
    make_durable(lab, TRANSACTION_STATE)
    other = producer.send("t", 0, partitions=(1,))
    hosted = lab.broker.partitions.find("t", 0)
    assert hosted is not None
    transaction = VerifiedTransaction(
        transactional_id=producer.name,
        producer=TransactionalProducer(ProducerId(producer.producer_id), producer.epoch),
        verification_request=VerificationRequest.ADD,
    )
    earlier = Recorder(lab)
    lab.broker.add_partitions_to_txn_manager.pending.verify(transaction, [(hosted, earlier)])
    sent = producer.send("t", 1)
    assert not sent.is_answered
    executor.finish()
    assert earlier.end_offsets == [1]
    assert codes(other) == codes(sent) == [ErrorCode.NONE]


class Recorder:
    """A waiting batch that records the log end offset at its turn."""

    sequence = 1

    def __init__(self, lab: BrokerLab) -> None:
        self._lab = lab
        self.end_offsets: list[int] = []

    def verified(self, _: VerificationGuard) -> None:
        self.end_offsets.append(end_offset(self._lab, "t"))

    def failed(self, code: ErrorCode) -> None:
        raise AssertionError(code)


def test_batch_of_the_next_transaction_waits_for_the_markers_of_the_last() -> None:
    """A producer of version 2 does not wait for them itself."""
    executor = held()
    lab, producer = made(executor=executor)
    make_durable(lab, "t")
    first = producer.send("t", 0)
    executor.finish()
    assert codes(first) == [ErrorCode.NONE]
    assert producer.end() is ErrorCode.NONE
    assert producer.state == "PrepareCommit"
    sent = producer.send("t", 0)
    assert not sent.is_answered
    executor.finish()
    assert producer.state == "CompleteCommit"
    lab.pass_time(20)
    executor.finish()
    assert codes(sent) == [ErrorCode.NONE]


def test_waiting_for_markers_times_out() -> None:
    executor = held()
    lab, producer = made(executor=executor)
    make_durable(lab, "t")
    producer.send("t", 0)
    executor.finish()
    producer.end()
    sent = producer.send("t", 0)
    for _ in range(5):
        assert not sent.is_answered
        lab.pass_time(20)
    assert codes(sent) == [ErrorCode.CONCURRENT_TRANSACTIONS]


def test_old_client_gets_a_retriable_error_it_knows() -> None:
    executor = held()
    lab, producer = made(executor=executor)
    make_durable(lab, "t")
    producer.add("t", 0)
    producer.send("t", 0, OLD)
    executor.finish()
    producer.end(version=4)
    assert codes(producer.send("t", 1, OLD)) == [ErrorCode.NOT_ENOUGH_REPLICAS]


def test_batch_without_a_coordinator_gets_a_retriable_error() -> None:
    lab = BrokerLab(SETTINGS)
    lab.create("t")
    producer = LabProducer(lab, producer_id=1, epoch=0)
    assert codes(producer.send("t", 0)) == [ErrorCode.NOT_ENOUGH_REPLICAS]


def test_verifications_without_an_append_are_forgotten() -> None:
    lab, producer = made()
    producer.send("t", 0, OLD)
    hosted = lab.broker.partitions.find("t", 0)
    assert hosted is not None
    assert hosted.transaction_verification is not None
    assert len(hosted.transaction_verification) == 1
    lab.clock.move(24 * HOUR_MS)
    lab.broker.add_partitions_to_txn_manager.tick(lab.clock.now_ms())
    assert len(hosted.transaction_verification) == 0


def test_made_up_producers_use_no_memory() -> None:
    lab, _ = made()
    find(lab, "g", GROUPS)
    mapping = [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    for number in range(1_000, 1_020):
        other = LabProducer(lab, "x", number, 0)
        assert codes(other.send("t", 0)) == mapping
        assert commit_codes(other.commit_offset("g", "t", 5)) == mapping
    assert not any(each.transaction_verification for each in lab.broker.partitions)


# The end of a transaction.


def test_transaction_timeout_aborts_it() -> None:
    """TX-9."""
    lab, producer = made()
    producer.send("t", 0)
    lab.pass_time(TIMEOUT_MS - 1)
    assert producer.state == "Ongoing"
    lab.pass_time(1)
    assert producer.state == "CompleteAbort"
    assert stable_offset(lab, "t") == 2
    assert codes(producer.send("t", 1)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    # The client must not take the coordinator's abort for the result of its own EndTxn.
    assert producer.end() is ErrorCode.INVALID_TXN_STATE


def test_unused_transactional_id_expires() -> None:
    """TX-10."""
    lab, producer = made()
    lab.pass_time(7 * 24 * HOUR_MS)
    lab.pass_time(HOUR_MS)
    assert producer.end() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert lab.ask(ListTransactionsRequest(), ListTransactionsResponse).transaction_states == ()


def test_marker_wakes_fetches_that_wait_for_more_than_its_bytes() -> None:
    """The records it makes readable may be many, and were appended long before."""
    lab, producer = made()
    producer.send("t", 0, value=b"v" * 5_000)
    waiting = lab.send(fetching("t", wait_ms=60_000, min_bytes=4_000), 12)
    assert not waiting.is_answered
    producer.end()
    lab.turn()
    records = waiting.answer(FetchResponse).responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert len(records) > 5_000


def test_marker_is_sent_again_if_its_disk_does_not_answer() -> None:
    """TX-6: until it is written, however long that takes."""
    executor = held()
    lab, producer = made(executor=executor)
    make_durable(lab, "t")
    producer.send("t", 0)
    executor.finish()
    producer.end()
    executor.crash()
    lab.pass_time(30_000)
    assert producer.state == "PrepareCommit"
    lab.change(ConfigsReplaced(ConfigResource(ResourceType.TOPIC, "t"), {}))
    lab.pass_time(100)
    assert producer.state == "CompleteCommit"


def test_deleted_topic_needs_no_marker() -> None:
    """TX-6."""
    lab, producer = made()
    producer.send("t", 0)
    lab.change(TopicDeleted("t"))
    assert producer.end() is ErrorCode.NONE
    assert producer.state == "CompleteCommit"


@pytest.mark.parametrize("is_commit", [True, False])
def test_decided_transaction_is_completed_after_a_crash(is_commit: bool) -> None:
    """TX-6: the decision is in the log, so the markers are still pending."""
    executor = held()
    lab, producer = made(executor=executor)
    find(lab, "g", GROUPS)
    make_durable(lab, "t")
    assert commit_codes(producer.commit_offset("g", "t", 5)) == [ErrorCode.NONE]
    producer.send("t", 0)
    executor.finish()
    # The topic's marker is not on disk yet, and the marker of the offsets is not written.
    lab.broker.groups.close()
    assert producer.end(committed=is_commit) is ErrorCode.NONE
    assert producer.state == ("PrepareCommit" if is_commit else "PrepareAbort")
    executor.crash()
    again = BrokerLab(SETTINGS, disk=lab.disk.process_crash())
    producer.lab = again
    assert committed_offset(again, "g")[1] is ErrorCode.UNSTABLE_OFFSET_COMMIT
    again.broker.transactions.load_some(1_000)
    again.pass_time(1_000)
    assert producer.state == ("CompleteCommit" if is_commit else "CompleteAbort")
    assert stable_offset(again, "t") == end_offset(again, "t")
    assert committed_offset(again, "g") == (5 if is_commit else -1, ErrorCode.NONE)


# Offsets.


def test_transactional_offsets_are_visible_after_the_commit() -> None:
    """TX-11, TX-12, TX-14."""
    lab, producer = made()
    find(lab, "g", GROUPS)
    for offset, is_commit in ((5, True), (9, False)):
        assert commit_codes(producer.commit_offset("g", "t", offset)) == [ErrorCode.NONE]
        assert committed_offset(lab, "g")[1] is ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert producer.end(committed=is_commit) is ErrorCode.NONE
        assert committed_offset(lab, "g") == (5, ErrorCode.NONE)


def test_offsets_unknown_to_the_coordinator_are_rejected() -> None:
    """TX-13."""
    lab, producer = made()
    find(lab, "g", GROUPS)
    assert commit_codes(producer.commit_offset("g", "t", 5, 3)) == [ErrorCode.INVALID_TXN_STATE]
    code = ErrorCode.TRANSACTION_ABORTABLE
    assert commit_codes(producer.commit_offset("g", "t", 5, 4)) == [code]
    request = AddOffsetsToTxnRequest(
        transactional_id="x",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id="g",
    )
    assert not lab.ask(request, AddOffsetsToTxnResponse).error_code
    assert commit_codes(producer.commit_offset("g", "t", 5, 4)) == [ErrorCode.NONE]


def test_marker_during_verification_makes_the_group_coordinator_verify_again() -> None:
    executor = held()
    lab, producer = made(executor=executor)
    find(lab, "g", GROUPS)
    make_durable(lab, TRANSACTION_STATE)
    sent = producer.commit_offset("g", "t", 5)
    assert not sent.is_answered
    number = lab.broker.groups.shard_of("g")
    assert not isinstance(number, ErrorCode)
    answer = lab.ask(producer.marker(CONSUMER_OFFSETS, number.number), WriteTxnMarkersResponse)
    assert answer.markers[0].topics[0].partitions[0].error_code is ErrorCode.NONE
    executor.finish()
    assert commit_codes(sent) == [ErrorCode.NONE]
    assert committed_offset(lab, "g") == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    make_quick(lab, TRANSACTION_STATE)
    assert producer.end() is ErrorCode.NONE
    assert committed_offset(lab, "g") == (5, ErrorCode.NONE)


def test_group_coordinator_that_is_not_ready_counts_as_a_missing_leader() -> None:
    """As in Kafka 4.1: a transaction coordinator waits for leaders, not for coordinators."""
    lab, producer = made()
    find(lab, "g", GROUPS)
    shard = lab.broker.groups.runtime.shards()[1]
    shard.close()
    answer = lab.ask(producer.marker(CONSUMER_OFFSETS, 1), WriteTxnMarkersResponse)
    code = answer.markers[0].topics[0].partitions[0].error_code
    assert code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (7, -1)])
def test_invalid_producer_id_is_rejected_in_markers_and_commits(
    producer_id: int, epoch: int
) -> None:
    lab, _ = made(transaction_partition_verification_enable="false")
    find(lab, "g", GROUPS)
    invalid = LabProducer(lab, "x", producer_id, epoch)
    answer = lab.ask(invalid.marker("t", 0), WriteTxnMarkersResponse)
    code = answer.markers[0].topics[0].partitions[0].error_code
    assert code is ErrorCode.INVALID_REQUEST
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert commit_codes(invalid.commit_offset("g", "t", 5, 3)) == [mapping]
    assert end_offset(lab, "t") == 0


# Many at once.


def test_transactions_of_many_shards_are_answered_in_order() -> None:
    lab, _ = made()
    producers = [LabProducer(lab, f"id-{number}") for number in range(8)]
    for producer in producers:
        producer.begin()
    topics = (AddPartitionsToTxnTopic(name="t", partitions=(0,)),)
    transactions = tuple(
        AddPartitionsToTxnTransaction(
            transactional_id=each.name,
            producer_id=each.producer_id,
            producer_epoch=each.epoch + number % 2,
            topics=topics,
        )
        for number, each in enumerate(producers)
    )
    request = AddPartitionsToTxnRequest(transactions=transactions)
    answer = lab.ask(request, AddPartitionsToTxnResponse, 5)
    assert [each.transactional_id for each in answer.results_by_transaction] == [
        each.name for each in producers
    ]
    fenced, taken = ErrorCode.PRODUCER_FENCED, ErrorCode.NONE
    assert [
        each.topic_results[0].results_by_partition[0].partition_error_code
        for each in answer.results_by_transaction
    ] == [taken, fenced] * 4
    listed = lab.ask(ListTransactionsRequest(state_filters=("Ongoing",)), ListTransactionsResponse)
    assert sorted(each.transactional_id for each in listed.transaction_states) == [
        each.name for each in producers[::2]
    ]


# Features.


def level_of(lab: BrokerLab, feature: str) -> int | None:
    request = ApiVersionsRequest(client_software_name="lab", client_software_version="1")
    answer = lab.ask(request, ApiVersionsResponse)
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    return levels.get(feature)


def update(lab: BrokerLab, feature: str, level: int, kind: int = 1) -> ErrorCode:
    key = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
    request = UpdateFeaturesRequest(feature_updates=(key,))
    return lab.ask(request, UpdateFeaturesResponse).error_code


def test_new_cluster_has_the_highest_feature_levels() -> None:
    lab = BrokerLab()
    assert (level_of(lab, "transaction.version"), level_of(lab, "group.version")) == (2, 1)


def test_without_its_feature_the_consumer_protocol_is_unsupported() -> None:
    """As if it did not exist; the classic protocol keeps working."""
    lab = BrokerLab(SETTINGS)
    find(lab, "g", GROUPS)
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m")
    describing = ConsumerGroupDescribeRequest(group_ids=("g",))
    assert update(lab, "group.version", 0, 2) is ErrorCode.NONE
    assert level_of(lab, "group.version") is None
    unsupported = ErrorCode.UNSUPPORTED_VERSION
    assert lab.ask(request, ConsumerGroupHeartbeatResponse).error_code is unsupported
    (group,) = lab.ask(describing, ConsumerGroupDescribeResponse).groups
    assert group.error_code is unsupported
    assert update(lab, "group.version", 1) is ErrorCode.NONE
    assert lab.ask(request, ConsumerGroupHeartbeatResponse).error_code is not unsupported


def test_lowered_feature_applies_to_the_coordinator() -> None:
    """With version 1 it aborts by fencing alone, and the marker has the bumped epoch."""
    lab, _ = made()
    assert lab.broker.transactions.settings.server_version == 2
    assert update(lab, "transaction.version", 1) is ErrorCode.INVALID_UPDATE_VERSION
    assert update(lab, "transaction.version", 1, 2) is ErrorCode.NONE
    assert lab.broker.transactions.settings.server_version == 1
    assert level_of(lab, "transaction.version") == 1
    assert update(lab, "transaction.version", 2, 2) is ErrorCode.INVALID_UPDATE_VERSION
    assert update(lab, "transaction.version", 3) is ErrorCode.INVALID_UPDATE_VERSION
    assert update(lab, "transaction.version", 2, 4) is ErrorCode.INVALID_UPDATE_VERSION
    assert update(lab, "transaction.version", 2) is ErrorCode.NONE
    assert lab.broker.transactions.settings.server_version == 2
